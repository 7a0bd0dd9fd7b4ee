"""The dtype rule at work: the result's dtype, casts, sums of two dtypes, half precision through float32."""

from collections.abc import Callable

from portable_ffn._arrays.dtype import COMPUTABLE, LOW_PRECISION, REAL_FLOATING, dtype_name, refuse_dtype, widest
from portable_ffn._arrays.library import Library, library
from portable_ffn._arrays.typing import Array, DType, Namespace


def astype(array: Array, dtype: DType, xp: Namespace) -> Array:
    """`array` in another dtype, itself where it has that already; differentiable where the library is."""
    return array if array.dtype == dtype else xp.astype(array, dtype)


def cast(arrays: tuple[Array | None, ...], dtype: DType, xp: Namespace) -> tuple[Array, ...]:
    """The arrays in one dtype, None where None."""
    return tuple(None if array is None else astype(array, dtype, xp) for array in arrays)


def add(x: Array, y: Array) -> Array:
    """x + y in the wider of their dtypes."""
    one = library(x)
    name = widest((dtype_name(x.dtype), dtype_name(y.dtype)))
    dtype = y.dtype if dtype_name(y.dtype) == name else one.dtype(str(name))
    with one.inside():
        return astype(x, dtype, one.xp) + astype(y, dtype, one.xp)


def through_float32(
    formula: Callable[..., tuple[Array, ...]],
    arrays: tuple[Array, ...],
    xp: Namespace,
) -> tuple[Array, ...]:
    """Some arrays from others of one dtype, computed in float32 where that is of half precision, and rounded once.

    Whoever the user calls has silenced NumPy's warnings (`Library.inside`) already.
    """
    dtype = arrays[0].dtype
    if dtype_name(dtype) not in LOW_PRECISION:
        return _with_nan(formula(xp, *arrays), arrays, xp)
    wide = cast(arrays, xp.float32, xp)
    return cast(_with_nan(formula(xp, *wide), wide, xp), dtype, xp)


def _with_nan(results: tuple[Array, ...], arrays: tuple[Array, ...], xp: Namespace) -> tuple[Array, ...]:
    """The results, NaN where the first array is, on a library whose comparisons lose it."""
    if not getattr(xp, "NAN_IS_LESS", False):
        return results
    h = arrays[0]
    return tuple(xp.where(h != h, h, result) for result in results)


def constants(numbers: tuple[float, ...], like: Array, xp: Namespace) -> Array:
    """Numbers as an array of the dtype of another, on its device."""
    if hasattr(xp, "constants"):
        return xp.constants(numbers, like)
    one = library(like)
    device = getattr(like, "device", None) if one.row.many_devices or one.row.namespace is None else None
    placed = {} if device is None else {"device": device}
    return xp.asarray(list(numbers), dtype=like.dtype, **placed)


def result_dtype(
    one: Library, names: tuple[str, ...], arrays: tuple[Array | None, ...], *, autocast: bool = True
) -> tuple[str, DType]:
    """The dtype of the result over the given arrays (None aside): its name and the library's object.

    Under PyTorch's autocast it is that of its products, unless `autocast` is False.

    Raises TypeError for an argument whose dtype is neither real floating nor integer nor boolean.
    """
    x: Array = arrays[0]
    autocast = autocast and one.name == "torch"
    first = x.dtype
    name = dtype_name(first)
    if name in REAL_FLOATING and getattr(first, "isnative", True):
        for array in arrays:
            # The same object most often; comparing costs more.
            if array is not None and array is not x and array.dtype is not first and array.dtype != first:
                break
        else:
            if not autocast or _under_autocast(name, x) == name:
                return name, first
    given = [(argument, array.dtype) for argument, array in zip(names, arrays, strict=True) if array is not None]
    for argument, dtype in given:
        if dtype_name(dtype) not in COMPUTABLE:
            raise refuse_dtype(argument, dtype)
    name = widest(dtype_name(dtype) for _, dtype in given) or one.default_float(x)
    if autocast:
        name = _under_autocast(name, x)
    for _, dtype in given:
        # Bytes in another order are how an argument is stored, not what its numbers are.
        if dtype_name(dtype) == name and getattr(dtype, "isnative", True):
            return name, dtype
    return name, one.dtype(name)


def _under_autocast(name: str, x: Array) -> str:
    """The dtype that PyTorch's Linear would give: autocast replaces every real floating dtype but float64."""
    if name == "float64":
        return name
    import torch

    device = "cpu" if x.is_cpu else x.device.type
    if device != "cpu" and not torch.amp.is_autocast_available(device):
        return name
    return dtype_name(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else name
