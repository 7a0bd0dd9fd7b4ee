"""Paddle as a namespace of the standard: numbers in the dtype of what they meet, and an exp that reaches 0.

On the CPU Paddle's exp stops at the smallest normal number (3.3: exp(-1000) is 2e-308), so that -inf times it is not
NaN and a tail never ends. Everything else is Paddle's own.

Of eager tensors and of the values of a program that `paddle.jit.to_static` makes.
"""

from typing import Any

import paddle


def __getattr__(name: str) -> Any:
    return getattr(paddle, name)


class _Info:
    """What the standard asks of a library about itself."""

    def default_dtypes(self) -> dict[str, Any]:
        """What Paddle makes of Python floats, as it is set."""
        return {"real floating": getattr(paddle, paddle.get_default_dtype())}


def __array_namespace_info__() -> _Info:
    return _Info()


def astype(x: Any, dtype: Any) -> Any:
    """The tensor in another dtype."""
    return paddle.cast(x, dtype)


def asarray(values: Any, *, dtype: Any = None) -> Any:
    """A tensor of numbers."""
    return paddle.to_tensor(values, dtype=dtype)


# exp of these is the smallest normal number.
_LOWEST = {paddle.float32: -87.33, paddle.float64: -708.39}


def exp(x: Any) -> Any:
    """E to the power of x, 0 where it would be subnormal."""
    lowest = _LOWEST.get(x.dtype)
    return paddle.exp(x) if lowest is None else where(x < lowest, 0.0, paddle.exp(x))


def where(condition: Any, one: Any, other: Any) -> Any:
    """One or the other; a number takes the dtype of the tensor beside it."""
    if not hasattr(one, "dtype"):
        one = paddle.full([], one, other.dtype)
    elif not hasattr(other, "dtype"):
        other = paddle.full([], other, one.dtype)
    return paddle.where(condition, one, other)


def matrix_transpose(x: Any) -> Any:
    """The matrix turned."""
    return paddle.transpose(x, [1, 0])


def sum(x: Any, *, axis: tuple[int, ...]) -> Any:
    """The sum over some axes, in the dtype of the tensor."""
    return paddle.sum(x, axis=list(axis))


def mean(x: Any, *, axis: int, keepdims: bool = False) -> Any:
    """The mean over an axis."""
    return paddle.mean(x, axis=axis, keepdim=keepdims)
