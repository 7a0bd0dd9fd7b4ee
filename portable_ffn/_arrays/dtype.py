"""One rule of dtypes for all libraries, on their names.

The array API standard leaves mixed kinds open, ml_dtypes and JAX's weak types bend what is left, and
PyTorch refuses mixed products. So the rule is a table of our own, and no library's promotion is asked.
"""

from collections.abc import Iterable

from portable_ffn._arrays.typing import DType

# Widest last. bfloat16 and float16 hold neither each other's range nor precision: together they need float32.
REAL_FLOATING = ("bfloat16", "float16", "float32", "float64")
LOW_PRECISION = frozenset({"bfloat16", "float16"})
INTEGRAL = frozenset(
    {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"},
)
COMPUTABLE = INTEGRAL.union(REAL_FLOATING)


# By the dtype's own type first: array-api-strict's dtypes hash like NumPy's and warn when compared with them.
# A plain dictionary, since torch.compile warns of functools' caches.
_names: dict[type, dict[DType, str]] = {}


def dtype_name(dtype: DType) -> str:
    """The standard's name of a library's dtype: "float32" for np.float32, torch.float32, "float32"."""
    if isinstance(dtype, str):
        return dtype
    known = _names.get(type(dtype))
    if known is None:
        known = _names.setdefault(type(dtype), {})
    name = known.get(dtype)
    if name is None:
        name = known[dtype] = _read_name(dtype)
    return name


def _read_name(dtype: DType) -> str:
    """NumPy, ml_dtypes, JAX, CuPy and Dask say their names; of the others and of scalar types it is the last word."""
    said = getattr(dtype, "name", None)
    if isinstance(said, str):
        return said
    return dtype.__name__ if isinstance(dtype, type) else str(dtype).rpartition(".")[2]


def is_real_floating(dtype: DType) -> bool:
    """Whether a network can be computed in this dtype."""
    return dtype_name(dtype) in REAL_FLOATING


def widest(names: Iterable[str]) -> str | None:
    """The name of the result's dtype; None where no argument is real floating."""
    floating = {name for name in names if name in REAL_FLOATING}
    if floating == LOW_PRECISION:
        return "float32"
    return max(floating, key=REAL_FLOATING.index, default=None)


def refuse_dtype(argument: str, dtype: DType) -> TypeError:
    """The error for a dtype that no network is computed in."""
    return TypeError(
        f"{argument} must be real floating ({', '.join(REAL_FLOATING)}), integer or boolean, got dtype "
        f"{dtype_name(dtype)}; cast it first",
    )
