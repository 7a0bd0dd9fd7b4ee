"""Activations in place on a tile of NumPy memory that stays in the cache: each is a few calls of ufuncs with `out=`.

A tile is one-dimensional, contiguous, float32 or float64. What would be an extra pass is folded into a constant;
exp may overflow to infinity, whose reciprocal is the right 0. Constants are tiles too where a ufunc is several
times slower with a Python scalar (maximum, minimum).
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from portable_ffn._activations.gates import ClippedGate
from portable_ffn._activations.named import Named
from portable_ffn._activations.tail import CUBIC, LAST, RATIOS, TWICE_SQRT_2_OVER_PI
from portable_ffn._arrays.typing import Array
from portable_ffn._native.numpy.workspace import Work

Tile = Array  # one dimension

ZEROS = {dtype: np.zeros((), dtype) for dtype in (np.dtype("float32"), np.dtype("float64"))}
# NumPy has no erf, and a ufunc call for each step of Horner's scheme would cost more than the exponential: the sums
# of the ratio are one matrix product of its coefficients with the powers of s. A row a sum: all of N and D where they
# are short, else N and D below s**POWERS, then N and D from there on.
POWERS = 5


def _sums(dtype: Any) -> Array:
    """The coefficients of the ratio as a matrix."""
    parts = [ratio[start : start + POWERS] for start in (0, POWERS) for ratio in RATIOS[dtype.name]]
    return np.array([part for part in parts if part], dtype)


SUMS = {dtype: _sums(dtype) for dtype in ZEROS}
Combine = Callable[[Tile, Tile | None, Work], None]


def relu(h: Tile, work: Work) -> None:
    # One number for all is three times slower a number, the tile of zeros costs a microsecond.
    np.maximum(h, ZEROS[h.dtype] if h.size <= 4096 else work.full(0.0, h.size), out=h)


def relu2(h: Tile, work: Work) -> None:
    relu(h, work)
    np.multiply(h, h, out=h)


def identity(h: Tile, work: Work) -> None:
    pass


def scaled_silu(h: Tile, work: Work, alpha: float = 1.0) -> None:
    """h / (1 + exp(-alpha h))."""
    (t,) = work.tiles(1, h.size)
    if alpha == 1.0:
        np.negative(h, out=t)
    else:
        np.multiply(h, -alpha, out=t)
    np.exp(t, out=t)
    np.add(t, 1.0, out=t)
    np.divide(h, t, out=h)


def quick_gelu(h: Tile, work: Work) -> None:
    scaled_silu(h, work, 1.702)


def sigmoid(h: Tile, work: Work) -> None:
    np.negative(h, out=h)
    np.exp(h, out=h)
    np.add(h, 1.0, out=h)
    np.divide(1.0, h, out=h)


def tanh(h: Tile, work: Work) -> None:
    np.tanh(h, out=h)


def gelu(h: Tile, work: Work) -> None:
    """max(h, 0) - |h| Q(|h|); the tail keeps its relative accuracy down to where it vanishes."""
    coefficients = SUMS[h.dtype]
    tiles = work.tiles(POWERS + len(coefficients), h.size)
    powers, sums = tiles[:POWERS], tiles[POWERS:]
    one, s, s2, s3, s4 = powers
    np.multiply(h, 0.5, out=h)
    np.absolute(h, out=s)
    np.add(h, s, out=h)  # max(x, 0), but NaN at -inf
    np.minimum(s, work.full(LAST[h.dtype.name], h.size), out=s)
    one.fill(1.0)
    np.multiply(s, s, out=s2)
    np.multiply(s2, s, out=s3)
    np.multiply(s2, s2, out=s4)
    np.matmul(coefficients, powers, out=sums)
    if len(sums) == 4:
        s5 = np.multiply(s4, s, out=s4)
        np.multiply(sums[2:], s5, out=sums[2:])
        np.add(sums[:2], sums[2:], out=sums[:2])
    tail = np.divide(sums[0], sums[1], out=s)
    np.multiply(s2, -2.0, out=s2)
    np.exp(s2, out=s2)
    np.multiply(tail, s2, out=tail)
    np.subtract(h, tail, out=h)


def gelu_tanh(h: Tile, work: Work) -> None:
    """h / (1 + exp(-2 u)), since (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u))."""
    (t,) = work.tiles(1, h.size)
    np.multiply(h, h, out=t)
    np.multiply(t, -TWICE_SQRT_2_OVER_PI * CUBIC, out=t)
    np.subtract(t, TWICE_SQRT_2_OVER_PI, out=t)
    np.multiply(t, h, out=t)
    np.exp(t, out=t)
    np.add(t, 1.0, out=t)
    np.divide(h, t, out=h)


def mish(h: Tile, work: Work) -> None:
    """h n / (n + 2) with n = e (e + 2), e = exp(h), which is h tanh(log(1 + e)); beyond 20 the fraction is 1."""
    e, n = work.tiles(2, h.size)
    np.minimum(h, work.full(20.0, h.size), out=e)
    np.exp(e, out=e)
    np.add(e, 2.0, out=n)
    np.multiply(n, e, out=n)
    np.add(n, 2.0, out=e)
    np.divide(n, e, out=n)
    np.multiply(h, n, out=h)


def leaky_relu(h: Tile, work: Work) -> None:
    (t,) = work.tiles(1, h.size)
    np.multiply(h, 0.01, out=t)
    np.maximum(h, t, out=h)


def hard_swish(h: Tile, work: Work) -> None:
    (t,) = work.tiles(1, h.size)
    np.add(h, 3.0, out=t)
    np.maximum(t, work.full(0.0, h.size), out=t)
    np.minimum(t, work.full(6.0, h.size), out=t)
    np.divide(t, 6.0, out=t)
    np.multiply(h, t, out=h)


def elu(h: Tile, work: Work) -> None:
    """max(h, 0) + expm1(min(h, 0))."""
    (t,) = work.tiles(1, h.size)
    zero = work.full(0.0, h.size)
    np.minimum(h, zero, out=t)
    np.expm1(t, out=t)
    np.maximum(h, zero, out=h)
    np.add(h, t, out=h)


def gated(activation: Callable[[Tile, Work], None]) -> Combine:
    """act(g), times u where the network is gated."""

    def combine(g: Tile, u: Tile | None, work: Work) -> None:
        activation(g, work)
        if u is not None:
            np.multiply(g, u, out=g)

    return combine


# A named activation without a row goes by its formula in functions of the standard, a tile at a time.
STEPS: Mapping[str, Combine] = {
    "relu": gated(relu),
    "relu2": gated(relu2),
    "gelu": gated(gelu),
    "gelu_tanh": gated(gelu_tanh),
    "quick_gelu": gated(quick_gelu),
    "silu": gated(scaled_silu),
    "sigmoid": gated(sigmoid),
    "tanh": gated(tanh),
    "identity": gated(identity),
    "mish": gated(mish),
    "leaky_relu": gated(leaky_relu),
    "hard_swish": gated(hard_swish),
    "elu": gated(elu),
}


def by_formula(act: Named) -> Combine:
    """Any activation on single numbers, by its own formula."""

    def combine(g: Tile, u: Tile | None, work: Work) -> None:
        g[...] = act.combine(g, u, np)

    return combine


def clipped_gate(gate: ClippedGate) -> Combine:
    """The gate with clamps; the linear branch u is overwritten."""
    limit = math.inf if gate.limit is None else gate.limit

    def combine(g: Tile, u: Tile, work: Work) -> None:
        if gate.clip == "before":
            np.minimum(g, limit, out=g)
        scaled_silu(g, work, gate.alpha)
        if gate.clip == "after":
            np.minimum(g, limit, out=g)
        if gate.limit is not None:
            np.clip(u, -limit, limit, out=u)
        if gate.offset:
            np.add(u, gate.offset, out=u)
        np.multiply(g, u, out=g)

    return combine
