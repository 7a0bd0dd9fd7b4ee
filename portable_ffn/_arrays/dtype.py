"""One rule of dtypes for all libraries, on their names.

The array API standard leaves mixed kinds open, ml_dtypes and JAX's weak types bend it further, and PyTorch refuses
mixed products. So the rule is a table of our own, and no library's promotion is asked.
"""

from collections.abc import Iterable
from typing import Any

from portable_ffn._arrays.errors import refusal
from portable_ffn._arrays.typing import DType, Namespace

# Widest last. bfloat16 and float16 hold neither each other's range nor precision: together they need float32.
REAL_FLOATING = ("bfloat16", "float16", "float32", "float64")
LOW_PRECISION = frozenset({"bfloat16", "float16"})
INTEGRAL = frozenset(
    {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"},
)
COMPUTABLE = INTEGRAL.union(REAL_FLOATING)
# Some libraries name a dtype by its type in C (tinygrad).
_C_NAMES = {
    "half": "float16",
    "__bf16": "bfloat16",
    "float": "float32",
    "double": "float64",
    "signed char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "unsigned char": "uint8",
    "unsigned short": "uint16",
    "unsigned int": "uint32",
    "unsigned long": "uint64",
}

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
    """What most libraries call `name`, Paddle in capitals; of the others and of scalar types it is the last word."""
    if isinstance(dtype, type):
        return dtype.__name__
    said = getattr(dtype, "name", None)
    name = (said if isinstance(said, str) else str(dtype).rpartition(".")[2]).lower()
    return _C_NAMES.get(name, name)


def is_real_floating(dtype: DType) -> bool:
    """Whether a network can be computed in this dtype."""
    return dtype_name(dtype) in REAL_FLOATING


def widest(names: Iterable[str]) -> str | None:
    """The name of the result's dtype; None where no argument is real floating."""
    floating = {name for name in names if name in REAL_FLOATING}
    if floating == LOW_PRECISION:
        return "float32"
    return max(floating, key=REAL_FLOATING.index, default=None)


def own_dtype(xp: Namespace, library: str, name: str) -> DType:
    """A library's own object for a dtype's name; TypeError where it has none."""
    found = getattr(xp, name, None)
    if found is None:
        raise not_held(library, name)
    return found


def numpy_dtype(name: str) -> Any:
    """NumPy's dtype of that name; bfloat16 is ml_dtypes'."""
    import numpy as np

    try:
        return np.dtype(name)
    except TypeError:
        return np.dtype(own_dtype(_ml_dtypes(), "numpy", name))


def _ml_dtypes() -> Any:
    """The package that gives NumPy its bfloat16."""
    try:
        import ml_dtypes
    except ImportError:
        advice = 'ml_dtypes adds it: pip install "portable-ffn[checkpoint]"'
        raise refusal(TypeError, "dtype", "must be one that numpy holds, got bfloat16", advice) from None
    return ml_dtypes


def not_held(library: str, name: str) -> TypeError:
    """The error for a dtype that a library has not, or not as it is configured."""
    others = ", ".join(other for other in REAL_FLOATING if other != name)
    x64 = " or set jax_enable_x64" if library == "jax" and name.endswith("64") else ""
    statement = f"must be one that {library} holds as configured, got {name}"
    return refusal(TypeError, "dtype", statement, f"ask for another of {others}{x64}")


def refuse_dtype(argument: str, dtype: DType) -> TypeError:
    """The error for a dtype that no network is computed in."""
    return refusal(
        TypeError,
        argument,
        f"must be real floating ({', '.join(REAL_FLOATING)}), integer or boolean, got dtype {dtype_name(dtype)}",
        "cast it first",
    )
