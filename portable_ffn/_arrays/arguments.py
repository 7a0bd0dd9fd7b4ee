"""What must hold of the arguments of one call, each thing asked once: arrays, one library, devices, shapes, dtype."""

from typing import Any, NamedTuple

from portable_ffn._arrays.errors import refusal
from portable_ffn._arrays.explain import explaining, two_devices, way_out
from portable_ffn._arrays.kind import not_an_array
from portable_ffn._arrays.library import Library, library, library_of
from portable_ffn._arrays.promotion import result_dtype
from portable_ffn._arrays.shapes import CHECKS
from portable_ffn._arrays.typing import Array, DType

_NEEDED = ("W1", "W2")


class Call(NamedTuple):
    """The arguments of a call that were checked, and what was found out about them.

    Attributes
    ----------
    library : Library
    arrays : tuple of arrays, None where an argument may be None
    act : what makes the hidden layer, None where there is none
    name, dtype : the dtype of the result, its name and the library's own object
    """

    library: Library
    arrays: tuple[Array, ...]
    act: Any
    name: str
    dtype: DType


def checked(names: tuple[str, ...], arrays: tuple[Array | None, ...], act: Any = None) -> Call:
    """The arguments under these names, a row of `shapes.CHECKS`, as a call that can be computed.

    Raises TypeError for what is no array, for arrays of two libraries and for a dtype that no network is computed in,
    ValueError for arrays on two devices of a library that does not combine them, and for shapes that don't fit.
    """
    for name, array in zip(names, arrays, strict=True):
        if array is None and name in _NEEDED:
            raise refusal(TypeError, name, "must be an array, got None", "only biases and V may be None")
    one = one_library(names, arrays)
    explaining(names, arrays, CHECKS[names], *arrays)
    # Autocast is for the products: a norm keeps its dtype, as PyTorch's own does.
    name, dtype = result_dtype(one, names, arrays, autocast=act is not None)
    return Call(one, arrays, act, name, dtype)


def one_library(names: tuple[str, ...], arrays: tuple[Array | None, ...]) -> Library:
    """The library that all the arrays belong to, the first one never None; their devices, where it has many."""
    first: Array = arrays[0]
    one = library(first, names[0])
    kind = type(first)
    for array in arrays:
        if array is not None and type(array) is not kind and library_of(array) != one.name:
            raise _two_libraries(names[0], one.name, _argument(array, names, arrays), array)
    if one.row.many_devices:
        device, on_cpu = first.device, getattr(first, "is_cpu", False)
        for array in arrays:
            # PyTorch's flag costs a third of its device.
            if array is None or array is first or (on_cpu and array.is_cpu):
                continue
            if array.device != device:
                raise two_devices(names[0], device, _argument(array, names, arrays), array.device)
    return one


def _argument(array: Array, names: tuple[str, ...], arrays: tuple[Array | None, ...]) -> str:
    """The name under which an array was given."""
    return next(name for name, given in zip(names, arrays, strict=True) if given is array)


def _two_libraries(first: str, name: str, argument: str, array: Array) -> TypeError:
    """The error for arrays of two libraries: it names the argument, both libraries and the way out."""
    other = library_of(array)
    if other is None:
        return not_an_array(argument, array)
    statement = f"must belong to one library, got {first} of {name} and {argument} of {other}"
    return refusal(TypeError, f"{first} and {argument}", statement, way_out(first, argument))
