"""PyTorch's own activations, where they have the values of our formulas: recorded, traced, and in place.

softplus is left out, since PyTorch's is linear from 20 on; so is F.hardswish wherever something may differentiate,
since it takes the other side at the corners. F.gelu loses its tail in float32.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from portable_ffn._activations.gates import ClippedGate
from portable_ffn._activations.tail import CUBIC, TWICE_SQRT_2_OVER_PI
from portable_ffn._arrays.typing import Array

Act = Callable[[Array], Array]
Step = Callable[[Array, Array | None], Array]


def relu2(h: Array) -> Array:
    """relu(h)**2."""
    r = torch.relu(h)
    return r * r


def quick_gelu(h: Array) -> Array:
    """h sigmoid(1.702 h)."""
    return h * torch.sigmoid(1.702 * h)


def erf_gelu(h: Array) -> Array:
    """The exact GELU in four operations: inf at +inf, where the vectorised F.gelu of PyTorch 2.13 has NaN."""
    return h * (0.5 * (1.0 + torch.erf(h * math.sqrt(0.5))))


def _gelu_into(h: Array, approximate: str = "none") -> Array:
    """F.gelu in place."""
    gelu: Any = F.gelu  # its types don't know `out`
    return gelu(h, approximate=approximate, out=h)


# Fewer numbers than the first are quicker by the one kernel; the second is a tile's share of a core's own cache.
MANY, TILE_BYTES = 2**16, 2 * 2**20


def gelu_tanh_(h: Array) -> Array:
    """h s(2 u) in place, a tile at a time: PyTorch's own kernel takes twice as long for its tanh (ci/BENCH.md)."""
    if h.numel() < MANY or not h.is_cpu or h.dtype not in (torch.float32, torch.float64):
        return _gelu_into(h, approximate="tanh")
    rows = max(1, TILE_BYTES // (h.shape[-1] * h.itemsize))
    factor, gates = h.new_full((), TWICE_SQRT_2_OVER_PI), torch.empty_like(h[:rows])
    for tile in h.split(rows):
        gate = torch.addcmul(factor, tile, tile, value=TWICE_SQRT_2_OVER_PI * CUBIC, out=gates[: tile.shape[0]])
        tile.mul_(gate.mul_(tile).sigmoid_())
    return h


# What autograd records: one operation each, so that no more is kept for the way back than nn.Sequential keeps.
RECORDED: Mapping[str, Act] = {
    "relu": torch.relu,
    "relu2": relu2,
    "relu6": F.relu6,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "quick_gelu": quick_gelu,
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "identity": lambda h: h,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "selu": F.selu,
    "mish": F.mish,
}
# What a compiler or a transform sees: no step depends on a value.
TRACED: Mapping[str, Act] = {**RECORDED, "gelu": erf_gelu}
_IN_PLACE: Mapping[str, Act] = {
    "relu": torch.relu_,
    "relu2": lambda h: torch.relu_(h).square_(),
    "relu6": partial(F.relu6, inplace=True),
    "gelu": _gelu_into,
    "gelu_tanh": gelu_tanh_,
    "quick_gelu": lambda h: h.mul_(torch.sigmoid_(1.702 * h)),
    "silu": partial(F.silu, inplace=True),
    "sigmoid": torch.sigmoid_,
    "tanh": torch.tanh_,
    "identity": lambda h: h,
    "leaky_relu": partial(F.leaky_relu, inplace=True),
    "elu": partial(F.elu, inplace=True),
    "selu": torch.selu_,
    "mish": partial(F.mish, inplace=True),
    "hard_swish": lambda h: h.mul_(F.hardsigmoid(h)),  # F.hardswish multiplies by 6 first, and overflows
}


def _gated(activation: Act) -> Step:
    """act(g), times u where the network is gated, into g."""

    def step(g: Array, u: Array | None) -> Array:
        return activation(g) if u is None else activation(g).mul_(u)

    return step


# What nobody records.
IN_PLACE: Mapping[str | None, Step] = {name: _gated(activation) for name, activation in _IN_PLACE.items()}
# The same where F.gelu has met numbers that it gets wrong.
CAREFUL: Mapping[str | None, Step] = {**IN_PLACE, "gelu": _gated(lambda h: h.copy_(erf_gelu(h)))}


def clipped_gate_(g: Array, u: Any, gate: ClippedGate) -> Array:
    """The gate with clamps, into g; the linear branch u is overwritten."""
    if gate.limit is not None:
        u.clamp_(-gate.limit, gate.limit)
        if gate.clip == "before":
            g.clamp_(max=gate.limit)
    g = F.silu(g, inplace=True) if gate.alpha == 1.0 else g.mul_(torch.sigmoid_(gate.alpha * g))
    if gate.limit is not None and gate.clip == "after":
        g.clamp_(max=gate.limit)
    return g.mul_(u if gate.offset == 0.0 else u.add_(gate.offset))
