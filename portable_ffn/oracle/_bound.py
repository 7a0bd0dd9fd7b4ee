"""The rounding error that a sound computation may have, carried along with the value.

One rule for every step, first order in u with the errors' own size added to the magnitudes:

- a product of n terms: growth(n) u |x||W|, on top of the errors that x and W bring, added up in absolute value;
- an activation: how far act moves when h moves by its error, and what evaluating it loses (see `Formula`);
- anything that underflows: eta.

A value that has come from a NaN or an infinity of the caller's is exact: it has error 0 and is expected as it is. One
that finite numbers have driven beyond the dtype's largest is marked instead: nothing is known of what depends on it.
So is the product of an infinity with what may be 0 within its error.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from portable_ffn.oracle._numbers import FLOATING, Array, Floating, Mask

# Higham and Mary 2019, section 3: if roundings are independent with mean zero, a sum of n products errs by at most
# lambda sqrt(n) u |x||W|, the more surely the larger lambda. The worst that 10**7 products of NumPy, PyTorch, JAX and
# MLX needed is 2.4, sums in order in float32 and float64 included (random signs, all positive, heavy tails, one term
# that dwarfs the others; n from 9 to 4096). Below 9 terms the growth is n, which always holds. Two things go beyond
# it: a sum in order in a 16-bit dtype that stands still, which is a fault, and one in any dtype whose terms are all the
# same number (constant x against constant W), where roundings repeat and may reach n u / 4.
LAMBDA = 3.0


class Computed(NamedTuple):
    """A float64 value, the bound of its error, and where finite numbers overflowed on the way to it."""

    value: Array
    error: Array
    overflow: Mask

    def reshape(self, *shape: int) -> "Computed":
        """The same numbers in another shape."""
        return Computed(self.value.reshape(shape), self.error.reshape(shape), self.overflow.reshape(shape))

    def transposed(self) -> "Computed":
        """The transpose."""
        return Computed(self.value.T, self.error.T, self.overflow.T)

    def doubtful(self) -> Mask:
        """Where it may be 0 or of either sign, so that its product with an infinity may be anything."""
        return (np.abs(self.value) <= self.error) & (self.error > 0.0)

    def bound(self) -> Array:
        """The error, infinite where the value or something on the way to it overflowed."""
        return np.where(self.overflow, np.inf, self.error)


class Elementwise(NamedTuple):
    """An activation on arrays: act, act' or None, and the losses of `Formula`."""

    value: Callable[[Array], Array]
    derivative: Callable[[Array], Array] | None
    relative: float
    lost: float
    power: int
    underflow: float


def roundoff(dtype: Floating) -> float:
    """The unit roundoff of `dtype` plus that of float64: the oracle rounds too, and for dtype float64 just as much."""
    return dtype.unit_roundoff + FLOATING["float64"].unit_roundoff


def growth(n: int) -> float:
    """How many u a dot product of n terms may lose, relative to |x||W|: lambda sqrt(n), or n where n is less."""
    return min(n, LAMBDA * math.sqrt(n))


def settle(value: Array, error: Array, lost: Mask, expected: Mask, dtype: Floating) -> Computed:
    """Mark what left the range of `dtype` in addition to `lost`; a value is `expected` in range where it was computed
    from finite numbers only.
    """
    error = np.where(np.isnan(error), 0.0, error)
    lost = lost | (expected & ~(np.abs(value) + error <= dtype.largest))
    return Computed(value, np.where(np.isfinite(value) & np.isfinite(error), error, 0.0), lost)


def affine(x: Computed, W: Computed, b: Computed | None, dtype: Floating) -> Computed:
    """The affine map x W + b."""
    product = x.value @ W.value
    n, size, bias = W.value.shape[0], np.abs(x.value), b is not None
    error = x.error @ np.abs(W.value) + (size + x.error) @ W.error
    magnitude = (size + x.error) @ (np.abs(W.value) + W.error)
    finite: Mask = np.logical_and(np.isfinite(x.value).all(-1, keepdims=True), np.isfinite(W.value).all(0))
    lost = x.overflow.any(axis=-1, keepdims=True) | W.overflow.any(axis=0)
    if np.isinf(x.value).any() or np.isinf(W.value).any():
        lost = lost | (np.isinf(x.value) @ W.doubtful()) | (x.doubtful() @ np.isinf(W.value))
    value: Array = product
    if b is not None:
        value, magnitude, error = product + b.value, magnitude + np.abs(b.value), error + b.error
        finite, lost = finite & np.isfinite(b.value), lost | b.overflow
    error = error + roundoff(dtype) * growth(n + bias) * magnitude
    error = error + np.where(magnitude > 0.0, (n + bias) * dtype.underflow, 0.0)  # a sum of zeros is 0 itself
    lost = lost | (finite & ~(np.abs(product) + error <= dtype.largest))
    return settle(value, error, lost, finite, dtype)


def times(a: Computed, b: Computed, dtype: Floating) -> Computed:
    """The elementwise product a * b."""
    value = a.value * b.value
    error = np.abs(a.value) * b.error + np.abs(b.value) * a.error + a.error * b.error
    error = error + roundoff(dtype) * (np.abs(value) + error) + dtype.underflow
    finite = np.isfinite(a.value) & np.isfinite(b.value)
    lost = a.overflow | b.overflow | (np.isinf(a.value) & b.doubtful()) | (np.isinf(b.value) & a.doubtful())
    return settle(value, error, lost, finite, dtype)


def reach(act: Callable[[Array], Array], h: Computed, value: Array) -> Array:
    """How far act(h) may move when h moves by up to its error; half steps see a turning point in between."""
    steps = (1.0, -1.0, 0.5, -0.5) if np.any(h.error > 0.1) else (1.0, -1.0)
    moved = np.zeros_like(value)
    for step in steps:
        moved = np.fmax(moved, np.abs(act(h.value + step * h.error) - value))
    return moved


def activated(act: Elementwise, h: Computed, dtype: Floating) -> Computed:
    """The activation act(h)."""
    value = act.value(h.value)
    moved, size = reach(act.value, h, value), np.abs(h.value)
    conditioned: Array = moved
    if act.derivative is not None:
        slope = np.abs(act.derivative(h.value))
        moved, conditioned = np.fmax(moved, slope * h.error), slope * size
    error = moved
    if act.relative or act.lost:
        u, eta = roundoff(dtype), dtype.underflow**act.underflow
        rounded = act.relative * (np.abs(value) + moved) + conditioned + act.lost * size**act.power
        error = moved + u * rounded + eta * (1.0 + size)
    return settle(value, error, h.overflow, np.isfinite(h.value) & ~np.isnan(value), dtype)
