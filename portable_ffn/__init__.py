"""The Transformer feed-forward network on arrays of any library of the array API standard.

    y = feed_forward(x, W1, b1, W2, b2)                                # max(0, x W1 + b1) W2 + b2
    y = feed_forward(x, W1, None, W2, None, V, activation="silu")      # SwiGLU

Array type in is array type out: NumPy, PyTorch, JAX, CuPy, Dask, MLX, ndonnx, array-api-strict and every other
library that follows the standard, on the device where the arrays lie. Importing this loads none of them.
"""

from types import ModuleType as _ModuleType

from portable_ffn._activations.gates import ClippedGate
from portable_ffn._activations.table import ACTIVATIONS
from portable_ffn._network.feed_forward import feed_forward, hidden
from portable_ffn._network.gradient import feed_forward_vjp
from portable_ffn._network.init import init_weights
from portable_ffn._network.norm import layer_norm, rms_norm
from portable_ffn._network.sublayer import sublayer
from portable_ffn._network.weights import Weights

__version__ = "0.1.0"
__all__ = [
    "ACTIVATIONS",
    "ClippedGate",
    "Weights",
    "feed_forward",
    "feed_forward_vjp",
    "hidden",
    "init_weights",
    "layer_norm",
    "rms_norm",
    "sublayer",
]

# Rooms with a face of their own, each imported at its first touch.
_ROOMS = ("adapters", "checkpoint", "experts", "oracle", "testing")


def __getattr__(name: str) -> _ModuleType:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS, "__version__"])
