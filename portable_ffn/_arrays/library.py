"""Which library an array is of, read off its type, and what is known of that library: one literal row each.

A library that follows the standard needs no row beyond its array types, and not even those where its arrays have
`__array_namespace__`.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from portable_ffn._arrays.dtype import LOW_PRECISION, dtype_name, numpy_dtype, own_dtype
from portable_ffn._arrays.inside import NOTHING, numbers_to_jax, numpy_in_silence
from portable_ffn._arrays.kind import kind_of, not_an_array, refused
from portable_ffn._arrays.standard import latest
from portable_ffn._arrays.typing import Array, DType, Namespace


# Import statements, not importlib: torch.compile follows them when the first call of all is one that it traces.
def _numpy() -> Namespace:
    import array_api_compat.numpy as xp

    return xp


def _torch() -> Namespace:
    import portable_ffn._arrays.torch as xp

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


def _tensorflow() -> Namespace:
    import portable_ffn._arrays.tensorflow as xp

    return xp


def _paddle() -> Namespace:
    import portable_ffn._arrays.paddle as xp

    return xp


def _tinygrad() -> Namespace:
    import portable_ffn._arrays.tinygrad as xp

    return xp


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of a library.

    Attributes
    ----------
    types : pairs of the root of the defining module and the class, of every type of its arrays
    namespace : loads its functions; None where each array brings them by `__array_namespace__`
    numpy_dtypes : its dtypes are NumPy's, with ml_dtypes' bfloat16
    half_via_float32 : its products in half precision are slow, or sum in half precision: they go through float32
    inside : the context that it computes in; None where it needs none
    many_devices : its arrays may lie on several devices that it does not combine. JAX is not one of these: it knows
        best which shardings go together, and its refusal is explained (`explain.py`)
    """

    types: tuple[tuple[str, str], ...] = ()
    namespace: Callable[[], Namespace] | None = None
    numpy_dtypes: bool = False
    half_via_float32: bool = False
    inside: Callable[[], AbstractContextManager[Any]] | None = None
    many_devices: bool = False


ROWS: Mapping[str, Row] = {
    "numpy": Row(
        types=(("numpy", "ndarray"), ("numpy", "generic")),
        namespace=_numpy,
        numpy_dtypes=True,
        half_via_float32=True,
        inside=numpy_in_silence,
    ),
    "torch": Row(types=(("torch", "Tensor"),), namespace=_torch, many_devices=True),
    "jax": Row(
        types=(("jax", "Array"), ("jaxlib", "ArrayImpl"), ("jax", "Tracer")), namespace=_jax, inside=numbers_to_jax
    ),
    "cupy": Row(types=(("cupy", "ndarray"),), namespace=_cupy, numpy_dtypes=True, many_devices=True),
    "dask": Row(types=(("dask", "Array"),), namespace=_dask, numpy_dtypes=True, half_via_float32=True),
    "mlx": Row(types=(("mlx", "array"),), namespace=_mlx),
    # A variable is a Tensor too, by TensorFlow's own protocol.
    "tensorflow": Row(types=(("tensorflow", "Tensor"),), namespace=_tensorflow),
    "paddle": Row(types=(("paddle", "Tensor"), ("paddle", "Value")), namespace=_paddle, half_via_float32=True),
    "tinygrad": Row(types=(("tinygrad", "Tensor"),), namespace=_tinygrad, half_via_float32=True),
    "dpnp": Row(types=(("dpnp", "dpnp_array"),), many_devices=True),
    "ndonnx": Row(types=(("ndonnx", "Array"),)),
    "array_api_strict": Row(types=(("array_api_strict", "Array"),), inside=numpy_in_silence, many_devices=True),
}
# A library that is known only by following the standard.
STANDARD = Row()
_BY_CLASS = {pair: name for name, row in ROWS.items() for pair in row.types}


@dataclass(frozen=True, slots=True)
class Library:
    """A library: its name, its functions, and what its row says."""

    name: str
    xp: Namespace
    row: Row = STANDARD

    def dtype(self, name: str) -> DType:
        """The library's own object for a dtype's name; TypeError where it has none."""
        return numpy_dtype(name) if self.row.numpy_dtypes else own_dtype(self.xp, self.name, name)

    def computing(self, name: str) -> str:
        """The dtype that products are computed in for a result of dtype `name`."""
        return "float32" if self.row.half_via_float32 and name in LOW_PRECISION else name

    def inside(self) -> AbstractContextManager[Any]:
        """The context that it computes in."""
        return NOTHING if self.row.inside is None else self.row.inside()

    def default_float(self, like: Array) -> str:
        """The dtype that this library, as configured, makes of Python floats, on the device of an array."""
        device = getattr(like, "device", None) if self.row.many_devices or self.row.namespace is None else None
        placed = {} if device is None else {"device": device}
        try:
            info = self.xp.__array_namespace_info__()
        except (AttributeError, RuntimeError):  # the standard has it since 2023.12
            return dtype_name(self.xp.asarray(0.0, **placed).dtype)
        return dtype_name(info.default_dtypes(**placed)["real floating"])


_seen: dict[type, str] = {}
_loaded: dict[str, Library] = {}
_by_type: dict[type, Library] = {}


def library_of(array: Any) -> str | None:
    """The name of the library that `array` belongs to; None where it is no array, or one that is refused."""
    kind = type(array)
    known = _seen.get(kind)
    if known is None:
        known = _recognise(kind)
        if known is not None:
            _seen[kind] = known
    return known


def _recognise(kind: type) -> str | None:
    """The library of the first base that is a known array type, else the root module of a type of the standard."""
    if refused(kind) is not None:
        return None
    for base in kind.__mro__:
        root = base.__module__.partition(".")[0]
        if (root, base.__name__) in _BY_CLASS:
            return _BY_CLASS[root, base.__name__]
    return kind.__module__.partition(".")[0] if hasattr(kind, "__array_namespace__") else None


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
        row = ROWS.get(name, STANDARD)
        if row.namespace is None:
            # Such a library may hand out another namespace for each version or flag: it is asked each time.
            return Library(name, latest(array.__array_namespace__()), row)
        found = _loaded[name] = Library(name, row.namespace(), row)
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
