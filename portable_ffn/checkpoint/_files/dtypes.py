"""What the dtype names of a safetensors header mean in NumPy."""

from typing import Any, Final

import numpy as np

from portable_ffn.checkpoint._errors import CheckpointError

# The names that the format knows (`Dtype` of safetensors 0.8): the dtype's common name, bits a value.
# The format stores little-endian values.
DTYPES: Final[dict[str, tuple[str, int]]] = {
    "BOOL": ("bool", 8),
    "F4": ("float4_e2m1fn", 4),
    "F6_E2M3": ("float6_e2m3fn", 6),
    "F6_E3M2": ("float6_e3m2fn", 6),
    "U8": ("uint8", 8),
    "I8": ("int8", 8),
    "F8_E5M2": ("float8_e5m2", 8),
    "F8_E4M3": ("float8_e4m3fn", 8),
    "F8_E8M0": ("float8_e8m0fnu", 8),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8),
    "I16": ("int16", 16),
    "U16": ("uint16", 16),
    "F16": ("float16", 16),
    "BF16": ("bfloat16", 16),
    "I32": ("int32", 32),
    "U32": ("uint32", 32),
    "F32": ("float32", 32),
    "C64": ("complex64", 64),
    "F64": ("float64", 64),
    "I64": ("int64", 64),
    "U64": ("uint64", 64),
}

BITS: Final[dict[str, int]] = dict(DTYPES.values())
DISK_NAMES: Final[dict[str, str]] = {name: disk for disk, (name, _) in DTYPES.items()}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The little-endian NumPy dtype of a common name; ml_dtypes is imported for those that NumPy lacks."""
    if BITS[name] < 8:
        raise CheckpointError(f"{name} packs several values into a byte, and is not read; save as bfloat16")
    if name == "bfloat16" or name.startswith("float8"):
        try:
            import ml_dtypes

            extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        except ImportError as error:
            raise CheckpointError(f"{name} needs ml_dtypes; pip install portable-ffn[checkpoint]") from error
        except AttributeError as error:
            raise CheckpointError(f"{name} needs a newer ml_dtypes; pip install -U ml_dtypes") from error
        return extended
    return np.dtype(name).newbyteorder("<")
