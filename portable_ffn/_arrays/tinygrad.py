"""tinygrad as a namespace of the standard: its functions are methods of a lazy tensor."""

from typing import Any

from tinygrad import Tensor, dtypes


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


def matmul(x: Any, W: Any) -> Any:
    """The product over the last axis of x."""
    return x.matmul(W)


def matrix_transpose(x: Any) -> Any:
    """The matrix turned."""
    return x.transpose(-2, -1)


def exp(x: Any) -> Any:
    """E to the power of x."""
    return x.exp()


def expm1(x: Any) -> Any:
    return x.exp() - 1


def log1p(x: Any) -> Any:
    return (1 + x).log()


def tanh(x: Any) -> Any:
    return x.tanh()


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
