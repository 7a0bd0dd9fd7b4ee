"""What each floating dtype can hold, which dtype a network's result has, and the exact way into float64."""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


class Floating(NamedTuple):
    """A floating dtype: significant bits, largest finite number, absolute error near zero, log2 of the finest step."""

    bits: int
    largest: float
    underflow: float
    quantum: int

    @property
    def unit_roundoff(self) -> float:
        """u: the largest relative error of one rounding to nearest."""
        return math.ldexp(1.0, -self.bits)


# IEEE 754-2019 table 3.5; bfloat16 is binary32 cut to 8 bits. XLA and most accelerators flush subnormal results of the
# wide formats to zero, so there the smallest normal number may be lost; float16 paths keep subnormals and lose half of
# the smallest.
FLOATING: dict[str, Floating] = {
    "float64": Floating(53, (2.0 - 2.0**-52) * 2.0**1023, 2.0**-1022, -1074),
    "float32": Floating(24, (2.0 - 2.0**-23) * 2.0**127, 2.0**-126, -149),
    "bfloat16": Floating(8, (2.0 - 2.0**-7) * 2.0**127, 2.0**-126, -133),
    "float16": Floating(11, (2.0 - 2.0**-10) * 2.0**15, 2.0**-25, -24),
}


def dtype_name(dtype: Any) -> str:
    """The bare name of a dtype of any library: "float32" of "float32", np.float32, torch.float32, mlx's or jnp's."""
    given = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = str(given).rpartition(".")[2].lower()
    if name not in FLOATING:
        raise TypeError(f"dtype must be one of {', '.join(FLOATING)}, got {dtype!r}; name one of these")
    return name


def unit_roundoff(dtype: Any) -> float:
    """The largest relative error of rounding a real number to `dtype`, to nearest.

    Parameters
    ----------
    dtype : str or dtype
        "float64", "float32", "float16" or "bfloat16", or the dtype object of any library.

    Returns
    -------
    float
        2**-53, 2**-24, 2**-11 or 2**-8.

    Raises
    ------
    TypeError
        For any other dtype.

    Examples
    --------
    >>> unit_roundoff("bfloat16")
    0.00390625
    """
    return FLOATING[dtype_name(dtype)].unit_roundoff


def widen(name: str, value: Any) -> tuple[Array, str | None]:
    """The argument `name` as float64, exactly, and the name of its floating dtype (None for integers)."""
    try:
        array = np.asarray(value)
    except Exception as error:  # every library refuses in its own way: RuntimeError, TypeError, BufferError ...
        raise TypeError(
            f"{name} must be something that numpy.asarray takes, got {type(value).__name__}: {error}; "
            f"detach it, move it to the CPU, or widen it to float32 or float64 first"
        ) from error
    given = array.dtype.name
    if array.dtype.kind in "biu":
        return array.astype(np.float64), None
    if given not in FLOATING:
        raise TypeError(f"{name} must be real numbers in {', '.join(FLOATING)} or integers, got dtype {given}")
    return array.astype(np.float64), given


def promoted(names: list[str | None]) -> str:
    """The widest of the floating dtypes; bfloat16 with float16 is float32, and integers alone are float64."""
    floating = {name for name in names if name is not None}
    if floating == {"bfloat16", "float16"}:
        return "float32"
    return max(floating, key=lambda name: (FLOATING[name].bits, FLOATING[name].largest), default="float64")


def cast_error(values: Array, dtype: Floating) -> Array:
    """What casting to `dtype` may change: 0 where it holds the value, else a rounding; below eta all may be flushed."""
    size = np.abs(values)
    _, exponent = np.frexp(values)
    quantum = np.maximum(exponent - dtype.bits, dtype.quantum)
    scaled = np.ldexp(values, -quantum)
    error = np.where(scaled == np.rint(scaled), 0.0, dtype.unit_roundoff * size + dtype.underflow)
    error = np.where((size > 0.0) & (size < dtype.underflow), dtype.underflow, error)
    return np.where(np.isfinite(values), error, 0.0)
