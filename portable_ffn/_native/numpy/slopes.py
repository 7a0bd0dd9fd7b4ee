"""An activation and its slope together, in place on a NumPy tile: they share the exponential.

Each kernel takes h and scratch tiles of its shape; it leaves act(h) in h and act'(h) in the first scratch tile. It is
called for |h| < LARGEST only, so that no square overflows; anything beyond, infinities and NaN go by the formulas of
the activations. exp may overflow to infinity, whose reciprocal is the limit 0.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from portable_ffn._activations.tail import CUBIC, LAST, ONE_OVER_SQRT_2PI, RATIOS, TWICE_SQRT_2_OVER_PI

LARGEST = 1e18
SCRATCH = 4
Tile = Any


def relu(h: Tile, s: Tile, t: Tile, *_: Tile) -> None:
    """The slope is the sign of what is left."""
    t[...] = 0  # the maximum with a tile is several times faster than with a number
    np.maximum(h, t, out=h)
    np.sign(h, out=s)


def _sigmoid_of(z: Tile, s: Tile) -> None:
    """1 / (1 + exp(z)) in s; z is lost."""
    np.exp(z, out=z)
    z += 1
    np.divide(1, z, out=s)


def _scaled_silu(alpha: float) -> Callable[..., None]:
    """h s(alpha h), whose slope is s + a alpha (1 - s), where a is the value."""

    def kernel(h: Tile, s: Tile, t: Tile, *_: Tile) -> None:
        np.multiply(h, -alpha, out=t)
        _sigmoid_of(t, s)
        h *= s
        np.subtract(1, s, out=t)
        if alpha != 1:
            t *= alpha
        t *= h
        s += t

    return kernel


def gelu_tanh(h: Tile, s: Tile, t: Tile, q: Tile, *_: Tile) -> None:
    """h s(z), z = h (c + k h**2), whose slope is s + a (1 - s) (c + 3 k h**2)."""
    c = TWICE_SQRT_2_OVER_PI
    k = CUBIC * c
    np.multiply(h, h, out=q)
    np.multiply(q, -k, out=t)
    t -= c
    t *= h
    _sigmoid_of(t, s)
    h *= s
    q *= 3 * k
    q += c
    np.subtract(1, s, out=t)
    t *= h
    t *= q
    s += t


def gelu(h: Tile, s: Tile, t: Tile, r: Tile, p: Tile) -> None:
    """h P(h), whose slope is P + h exp(-h**2 / 2) / sqrt(2 pi); P is the normal distribution, by its upper tail."""
    above, below = RATIOS[h.dtype.name]
    np.abs(h, out=t)
    t *= 0.5
    r[...] = LAST[h.dtype.name]  # the minimum with a tile is several times faster than with a number
    np.minimum(t, r, out=t)
    _horner(above[1:], t, p)
    _horner(below, t, r)
    p /= r  # twice the tail over exp(-h**2 / 2)
    np.multiply(t, t, out=t)
    t *= -2
    np.exp(t, out=t)
    p *= t
    p *= 0.5
    # P is 1 - tail on the right and the tail on the left: exact in both.
    r[...] = 0.5
    np.copysign(r, h, out=r)
    np.add(r, 0.5, out=s)
    r *= 2
    p *= r
    s -= p
    t *= h
    t *= ONE_OVER_SQRT_2PI
    h *= s
    s += t


def _horner(coefficients: tuple[float, ...], s: Tile, into: Tile) -> None:
    """A polynomial, the constant first."""
    np.multiply(s, coefficients[-1], out=into)
    for coefficient in coefficients[-2:0:-1]:
        into += coefficient
        into *= s
    into += coefficients[0]


KERNELS: Mapping[str, Callable[..., None]] = {
    "relu": relu,
    "silu": _scaled_silu(1.0),
    "quick_gelu": _scaled_silu(1.702),
    "gelu_tanh": gelu_tanh,
    "gelu": gelu,
}
