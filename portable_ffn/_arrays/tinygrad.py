"""tinygrad as a namespace of the standard: its functions are methods of a lazy tensor.

It makes exp of 2**(x / log 2), which is off by 28 units in the last place at -63, and has neither expm1 nor a tanh or a
log1p that keeps its digits near 0 (0.14). These four are made of series, which it differentiates well. It says that
NaN <= 0, since it makes that of a comparison the other way round: see NAN_IS_LESS.
"""

import math
from typing import Any

from tinygrad import Tensor, dtypes

# log(2) = high + low, where high has 16 bits, so that n * high is exact for every exponent n in float32 too.
_LN2_HIGH = float.fromhex("0x1.62e4p-1")
_LN2_LOW = 1.4286068203094173e-06
_TERMS, _ODD = 16, 17
# Formulas whose comparisons are to be false of NaN lose it: whoever calls them puts it back.
NAN_IS_LESS = True


def __getattr__(name: str) -> Any:
    return getattr(dtypes, name)


class _Info:
    """What the standard asks of a library about itself."""

    def default_dtypes(self) -> dict[str, Any]:
        """What tinygrad makes of Python floats, as it is set."""
        return {"real floating": dtypes.default_float}


def __array_namespace_info__() -> _Info:
    return _Info()


def astype(x: Any, dtype: Any) -> Any:
    """The tensor in another dtype."""
    return x.cast(dtype)


def asarray(values: Any, *, dtype: Any = None) -> Any:
    """A tensor of numbers."""
    return Tensor(values, dtype=dtype)


def where(condition: Any, one: Any, other: Any) -> Any:
    """One or the other; a number takes the dtype of the tensor beside it."""
    if not hasattr(one, "dtype"):
        one = other.full_like(one)
    elif not hasattr(other, "dtype"):
        other = one.full_like(other)
    return condition.where(one, other)


def add(x: Any, y: Any) -> Any:
    """x + y."""
    return x + y


def multiply(x: Any, y: Any) -> Any:
    """x y."""
    return x * y


def matmul(x: Any, W: Any) -> Any:
    """The product over the last axis of x."""
    return x.matmul(W)


def matrix_transpose(x: Any) -> Any:
    """The matrix turned."""
    return x.transpose(-2, -1)


def exp(x: Any) -> Any:
    """E to the power of x, as 2**n e**r, where x = n log 2 + r and |r| <= log(2) / 2."""
    low, high = (-746.0, 710.0) if x.dtype == dtypes.float64 else (-104.0, 89.0)
    inside = where(x < low, low, where(x > high, high, x))
    n = (inside.detach() * (1 / math.log(2))).round()
    same = n.cast(dtypes.int32).cast(n.dtype)  # so that tinygrad doesn't add the two parts of log(2) first
    r = (inside - n * _LN2_HIGH) - same * _LN2_LOW
    half = (n / 2).floor()  # in two factors: 2**n alone overflows or vanishes before e**x does
    return (1 + r * _series(r)) * _power_of_two(half) * _power_of_two(n - half)


def _power_of_two(n: Any) -> Any:
    """2**n for whole n of normal numbers, written into the exponent's bits."""
    if n.dtype == dtypes.float64:
        return ((n.cast(dtypes.int64) + 1023) * 2**52).bitcast(dtypes.float64)
    return ((n.cast(dtypes.int32) + 127) * 2**23).bitcast(dtypes.float32)


def expm1(x: Any) -> Any:
    """exp(x) - 1, for small x by its series."""
    near = where(x < -0.5, -0.5, where(x > 0.5, 0.5, x))
    return where((x >= -0.5) * (x <= 0.5), near * _series(near), exp(x) - 1)


def _series(x: Any) -> Any:
    """(exp(x) - 1) / x for |x| <= 0.5, by Taylor."""
    value = 1 / math.factorial(_TERMS)
    for n in range(_TERMS - 1, 0, -1):
        value = value * x + 1 / math.factorial(n)
    return value


def log1p(x: Any) -> Any:
    """log(1 + x) for x from 0 to 1, all that is asked here: 2 artanh(x / (2 + x)), by its series."""
    s = x / (2 + x)
    square = s * s
    value = 1 / (2 * _ODD + 1)
    for n in range(_ODD - 1, -1, -1):
        value = value * square + 1 / (2 * n + 1)
    return 2 * s * value


def tanh(x: Any) -> Any:
    """-t / (2 + t), t = exp(-2 |x|) - 1, with the sign of x."""
    t = expm1(where(x <= 0, 2 * x, -2 * x))
    return where(x <= 0, t / (2 + t), -t / (2 + t))


def sqrt(x: Any) -> Any:
    return x.sqrt()


def ones_like(x: Any) -> Any:
    return x.ones_like()


def zeros_like(x: Any) -> Any:
    return x.zeros_like()


def sum(x: Any, *, axis: tuple[int, ...]) -> Any:
    """The sum over some axes."""
    return x.sum(axis)


def mean(x: Any, *, axis: int, keepdims: bool = False) -> Any:
    """The mean over an axis."""
    return x.mean(axis, keepdim=keepdims)


def tensordot(a: Any, b: Any, *, axes: tuple[list[int], list[int]]) -> Any:
    """The sum of products over the leading axes of both."""
    n = len(axes[0])
    letters = "abcdefghijklmnopqrstuvw"[:n]
    return Tensor.einsum(f"{letters}x,{letters}y->xy", a, b)
