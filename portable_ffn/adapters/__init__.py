"""The network inside other frameworks: a module in `torch`, `flax`, `equinox` and `keras`, a graph in `onnx`.

Each is imported by itself, and importing one loads no other framework.
"""

from importlib import import_module
from typing import Any

__all__ = ["equinox", "flax", "keras", "onnx", "torch"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return __all__
