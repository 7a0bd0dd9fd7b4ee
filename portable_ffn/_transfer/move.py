"""Moving one array into another library, dtype or device.

Three rules. Within a library its own cast, so that gradients and traces go on. Between two that speak DLPack the
memory itself, where the target takes it. Else by way of NumPy, which sees the memory of nearly every library and
holds every dtype. Memory that nobody may write (JAX, MLX, read-only NumPy) is copied on its way to a library that has
no read-only arrays.
"""

from typing import Any

from portable_ffn._arrays.dtype import dtype_name, is_real_floating, not_held
from portable_ffn._arrays.kind import not_an_array
from portable_ffn._arrays.library import library_of
from portable_ffn._arrays.typing import Array, DType
from portable_ffn._transfer.cast import cast_numpy
from portable_ffn._transfer.table import STANDARD, TABLE, Row


def move(array: Array, like: Array | None, dtype: DType | None, device: Any) -> Array:
    """`array` in the library and on the device of `like`, in `dtype`, else like's if real floating, else its own.

    Raises TypeError for what is no array and where the target cannot hold the dtype, ValueError for a device that it
    does not have.
    """
    source, giver = _library("array", array)
    target, taker = (source, giver) if like is None else _library("like", like)
    name = _wanted(array, like, dtype)
    if device is None and like is not None and taker.device is not None:
        device = taker.device(like)
    if source != target:
        array = _carry(array, giver, taker, like, name)
    moved = taker.cast(array, name, device)
    if dtype_name(moved.dtype) != name:
        raise not_held(target, name)
    return moved


def to_numpy(array: Array) -> Any:
    """The same numbers as a NumPy array, without a copy where the library allows; bfloat16 by ml_dtypes."""
    return _library("array", array)[1].to_numpy(array)


def _library(argument: str, array: Array) -> tuple[str, Row]:
    """The library of an array, and how it gives and takes arrays."""
    library = library_of(array)
    if library is None:
        raise not_an_array(argument, array)
    return library, TABLE.get(library, STANDARD)


def _wanted(array: Array, like: Array | None, dtype: DType | None) -> str:
    """The name of the dtype to arrive in."""
    if dtype is not None:
        return dtype_name(dtype)
    return dtype_name(like.dtype if like is not None and is_real_floating(like.dtype) else array.dtype)


def _carry(array: Array, giver: Row, taker: Row, like: Array, name: str) -> Array:
    """`array` in another library, cut from automatic differentiation, not yet in its last dtype or place."""
    if giver.give is not None and taker.take is not None:
        try:
            taken = taker.take(giver.give(array), like)
        except (BufferError, RuntimeError, TypeError, ValueError):
            pass  # which dtypes, strides and devices a library takes, only asking tells: each refuses in its own way
        else:
            return taker.copy(taken) if taker.copy is not None and giver.frozen(array) else taken
    return taker.from_numpy(cast_numpy(giver.to_numpy(array), name, None), like)
