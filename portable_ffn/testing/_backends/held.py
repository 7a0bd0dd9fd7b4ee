"""What a dtype holds of the numbers of float64."""

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]
Float64 = npt.NDArray[np.float64]


def numpy_dtype(name: str) -> Any:
    """NumPy's dtype of that name, ml_dtypes' for bfloat16."""
    holder = "ml_dtypes" if name == "bfloat16" else "numpy"
    return np.dtype(getattr(importlib.import_module(holder), name if name != "bool" else "bool_"))


def held(values: Values, dtype: str) -> Float64:
    """The numbers that `dtype` holds of `values`, rounded to nearest even once, in float64."""
    values = np.asarray(values, dtype=np.float64)
    if dtype != "bfloat16":
        with np.errstate(all="ignore"):
            return values.astype(dtype).astype(np.float64)
    # bfloat16 has 8 significant bits, and 2**-133 is its smallest number.
    _, exponent = np.frexp(values)
    step = np.maximum(exponent - 8, -133)
    rounded = np.ldexp(np.rint(np.ldexp(values, -step)), step)
    return np.where(np.abs(rounded) > float.fromhex("0x1.fep127"), np.copysign(np.inf, values), rounded)
