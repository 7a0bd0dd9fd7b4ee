"""The namespace of an array, and what the standard leaves to each library. The only door to array_api_compat."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from portable_ffn._arrays.dtype import COMPUTABLE, LOW_PRECISION, REAL_FLOATING, dtype_name, refuse_dtype, widest
from portable_ffn._arrays.library import kind_of, library_of, not_an_array
from portable_ffn._arrays.typing import Array, DType, Namespace
from portable_ffn._transfer.cast import ml_dtypes


# Import statements, not importlib: torch.compile follows them when the first call of all is one that it traces.
def _numpy() -> Namespace:
    import array_api_compat.numpy as xp

    return xp


def _torch() -> Namespace:
    import array_api_compat.torch as xp

    return xp


def _jax() -> Namespace:
    import portable_ffn._arrays.jax as xp

    return xp


def _cupy() -> Namespace:
    import array_api_compat.cupy as xp

    return xp


def _dask() -> Namespace:
    import array_api_compat.dask.array as xp

    return xp


def _mlx() -> Namespace:
    import portable_ffn._arrays.mlx as xp

    return xp


# Where the functions of a library are found; one without a row is asked by `__array_namespace__`.
_NAMESPACES: Mapping[str, Callable[[], Namespace]] = {
    "numpy": _numpy,
    "torch": _torch,
    "jax": _jax,
    "cupy": _cupy,
    "dask": _dask,
    "mlx": _mlx,
}
# Libraries whose product in half precision is slow, or sums in half precision: they go through float32.
_HALF_VIA_FLOAT32 = frozenset({"numpy", "dask"})
# Libraries that compute by NumPy at the call and so warn by it.
_WARNS = frozenset({"numpy", "array_api_strict"})
_NOTHING_TO_QUIET = nullcontext()


@dataclass(frozen=True, slots=True)
class Library:
    """What the network needs to know of a library beside its functions."""

    name: str
    xp: Namespace

    def dtype(self, name: str) -> DType:
        """The library's own object for a dtype's name; TypeError where it has none."""
        if self.name in ("numpy", "dask") and name == "bfloat16":
            import numpy as np

            return np.dtype(ml_dtypes().bfloat16)
        found = getattr(self.xp, name, None)
        if found is None:
            raise TypeError(f"dtype must be one that {self.name} has, got {name}; {self.name} has no {name}")
        return found

    def computing(self, name: str) -> str:
        """The dtype that products are computed in for a result of dtype `name`."""
        return "float32" if name in LOW_PRECISION and self.name in _HALF_VIA_FLOAT32 else name

    def quiet(self) -> AbstractContextManager[Any]:
        """A context in which NumPy keeps its floating-point warnings to itself: the values carry the news."""
        if self.name in _WARNS:
            import numpy as np

            return np.errstate(all="ignore")
        return _NOTHING_TO_QUIET

    def default_float(self) -> str:
        """The dtype that this library, as configured, makes of Python floats."""
        return dtype_name(self.xp.__array_namespace_info__().default_dtypes()["real floating"])


_loaded: dict[str, Library] = {}
_by_type: dict[type, Library] = {}


def library(array: Array, argument: str = "x") -> Library:
    """The library of one array; TypeError where it is no array."""
    known = _by_type.get(type(array))
    if known is not None:
        return known
    name = library_of(array)
    if name is None:
        raise not_an_array(argument, array)
    found = _loaded.get(name)
    if found is None:
        # A library without a row may hand out another namespace for each version or flag: it is asked each time.
        if name not in _NAMESPACES:
            return Library(name, array.__array_namespace__())
        found = _loaded[name] = Library(name, _NAMESPACES[name]())
    _by_type[type(array)] = found
    return found


def namespace(*arrays: Array) -> Namespace:
    """The functions of the library that the arrays (None aside) belong to."""
    given = [array for array in arrays if array is not None]
    one = library(given[0])
    for array in given[1:]:
        if library_of(array) != one.name:
            raise TypeError(f"arrays must belong to one library, got {one.name} and {kind_of(array)}; convert one")
    return one.xp


def astype(array: Array, dtype: DType, xp: Namespace) -> Array:
    """`array` in another dtype, itself where it has that already; differentiable where the library is."""
    if array.dtype == dtype:
        return array
    return array.to(dtype) if hasattr(array, "requires_grad_") else xp.astype(array, dtype)


def result_dtype(one: Library, names: tuple[str, ...], arrays: tuple[Array, ...]) -> tuple[str, DType]:
    """The dtype of the result over the given arrays (None aside): its name and the library's object.

    Raises TypeError for an argument whose dtype is neither real floating nor integer nor boolean.
    """
    x = arrays[0]
    first = x.dtype
    name = dtype_name(first)
    if name in REAL_FLOATING and getattr(first, "isnative", True):
        for array in arrays:
            # The same object most often; comparing costs more.
            if array is not None and array is not x and array.dtype is not first and array.dtype != first:
                break
        else:
            if one.name != "torch" or name == "float64" or _under_autocast(name, x, one.xp) == name:
                return name, first
    given = [(argument, array.dtype) for argument, array in zip(names, arrays, strict=True) if array is not None]
    for argument, dtype in given:
        if dtype_name(dtype) not in COMPUTABLE:
            raise refuse_dtype(argument, dtype)
    name = widest(dtype_name(dtype) for _, dtype in given) or one.default_float()
    if one.name == "torch":
        name = _under_autocast(name, x, one.xp)
    for _, dtype in given:
        # Bytes in another order are how an argument is stored, not what its numbers are.
        if dtype_name(dtype) == name and getattr(dtype, "isnative", True):
            return name, dtype
    return name, one.dtype(name)


def _under_autocast(name: str, x: Array, torch: Namespace) -> str:
    """The dtype that PyTorch's Linear would give: autocast replaces every real floating dtype but float64."""
    if name == "float64":
        return name
    device = "cpu" if x.is_cpu else x.device.type
    if device != "cpu" and not torch.amp.is_autocast_available(device):
        return name
    return dtype_name(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else name
