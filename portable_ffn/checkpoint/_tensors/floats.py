"""Floats of four and six bits, and scales that are powers of two (OCP Microscaling Formats v1.0, 5.3 and 5.4)."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = np.ndarray[Any, Any]

E2M1: Final = np.array(
    (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0), np.float32
)
"""The values of E2M1 by their code, the sign in the highest bit."""

E2M3: Final = np.array(
    [
        sign * (m / 8 if e == 0 else (1 + m / 8) * 2.0 ** (e - 1))
        for sign in (1, -1)
        for e in range(4)
        for m in range(8)
    ],
    np.float32,
)
"""The values of E2M3 by their code of six bits."""

# E8M0 has no infinity: its last code is NaN.
_POWERS: Final = np.append(np.ldexp(1.0, np.arange(255) - 127), np.nan).astype(np.float32)
# Two values for each byte, as one number of eight bytes: one look-up gives both.
_LOW_FIRST: Final = np.stack([np.tile(E2M1, 16), np.repeat(E2M1, 16)], axis=1).view(np.uint64)[:, 0]


def pairs_of_e2m1(data: Array) -> Array:
    """The values of bytes that hold two codes each, the low half first; the last axis doubles."""
    bytes_ = np.ascontiguousarray(data).view(np.uint8)
    return np.take(_LOW_FIRST, bytes_).view(np.float32)


def powers(bytes_: Array) -> npt.NDArray[np.float32]:
    """2 ** (byte - 127); 255 is NaN (E8M0)."""
    return np.take(_POWERS, np.ascontiguousarray(bytes_).view(np.uint8))


def is_exponent(dtype: str) -> bool:
    """Whether scales of this dtype are exponents: bytes beside floats of four or eight bits are no factors."""
    return dtype in ("uint8", "float8_e8m0fnu")


def as_factors(scales: Array, dtype: str) -> npt.NDArray[np.float32]:
    """Scales as factors, whichever of the two they are on disk."""
    return powers(scales) if is_exponent(dtype) else scales.astype(np.float32)


def scaled(values: Array, scales: Array, *, copy: bool = False) -> Array:
    """Values (..., n) times scales (..., n / group), in place where they are float32."""
    groups = scales.shape[-1]
    values = values.astype(np.float32, copy=copy)
    if values.size:
        grouped = values.reshape(*values.shape[:-1], groups, values.shape[-1] // groups)
        grouped *= scales[..., None]
    return values
