"""MLX as a namespace of the standard, with a float64 that is float64.

MLX computes float64 on its CPU device, but evaluates exp, sigmoid and erf there only to float32
(measured on 0.32: exp(1.5) is off by 1e-8). Its expm1 and tanh are right, so exp is rebuilt from expm1.
Its sum over an axis of length 0 reads memory that isn't its own, and may not come back (0.32, on the CPU).
Everything else is MLX's own.
"""

import math
from typing import Any

import mlx.core as mx

# log(2) = high + low, where high has 32 bits, so that n * high is exact for every exponent n.
_LN2_HIGH = float.fromhex("0x1.62e42ff000000p-1")
_LN2_LOW = -4.2009150726810846e-11
# Beyond these e**x exceeds float64 or is below half its smallest number.
_LOWEST, _HIGHEST = -745.14, 709.79


def __getattr__(name: str) -> Any:
    return getattr(mx, name)


def exp(x: Any) -> Any:
    """E to the power of x; in float64 as 2**n (1 + expm1(r)), where x = n log 2 + r and |r| <= log(2) / 2."""
    if x.dtype != mx.float64:
        return mx.exp(x)
    inside = mx.clip(x, _LOWEST, _HIGHEST)
    n = mx.round(inside * (1 / math.log(2)))
    r = (inside - n * _LN2_HIGH) - n * _LN2_LOW
    half = mx.floor(n / 2)  # in two factors: 2**n alone overflows or vanishes before e**x does
    value = (1 + mx.expm1(r)) * _power_of_two(half) * _power_of_two(n - half)
    value = mx.where(x > _HIGHEST, math.inf, mx.where(x < _LOWEST, 0.0, value))
    return mx.where(mx.isnan(x), x, value)


def sum(x: Any, *, axis: int | tuple[int, ...], keepdims: bool = False) -> Any:
    """The sum over some axes, which is 0 over none."""
    if x.size:
        return mx.sum(x, axis=axis, keepdims=keepdims)
    summed = {a % x.ndim for a in ((axis,) if isinstance(axis, int) else axis)}
    kept = [1 if a in summed else n for a, n in enumerate(x.shape) if keepdims or a not in summed]
    return mx.zeros(kept, x.dtype)


def argmax(x: Any, *, axis: int) -> Any:
    """The first index of the largest, which MLX does not look for in an array of no elements."""
    if x.size:
        return mx.argmax(x, axis=axis)
    return mx.zeros([n for a, n in enumerate(x.shape) if a != axis % x.ndim], mx.uint32)


def matrix_transpose(x: Any) -> Any:
    """The matrix turned."""
    return x.T


def _power_of_two(n: Any) -> Any:
    """2**n for whole n in [-1022, 1023], written into the exponent's bits."""
    return mx.view((n.astype(mx.int64) + 1023) * (1 << 52), mx.float64)
