"""What a library itself can't do: one literal table. A network on it is not blamed, and the report says why."""

from typing import NamedTuple

from portable_ffn.testing._backends.table import Backend


class Gap(NamedTuple):
    """An answer asked for in `dtype` that comes as `came`, and is right to the bound of `right_to`."""

    libraries: tuple[str, ...]
    dtype: str
    came: str
    right_to: str
    reason: str


GAPS: tuple[Gap, ...] = (
    Gap(
        ("numpy",),
        "bfloat16",
        "float32",
        "bfloat16",
        "bfloat16 came out as float32: NumPy multiplies matrices of ml_dtypes.bfloat16 into float32",
    ),
    Gap(
        ("mlx",),
        "float64",
        "float64",
        "float32",
        "float64 right to float32 only: MLX evaluates exp, sigmoid and erf no better in float64",
    ),
)


def gap(library: str, dtype: str, came: str) -> Gap | None:
    """The row that may excuse an answer; None where nothing does."""
    return next((row for row in GAPS if library in row.libraries and (dtype, came) == (row.dtype, row.came)), None)


# library -> what makes it hold float64, where that is a setting; the row of JAX without x64 is meant to be without.
_REMEDIES = {"jax": "set JAX_ENABLE_X64=1 in the environment for float64"}


def narrowed(backend: Backend, dtype: str, served: str) -> str:
    """Why an array of one dtype is held in a narrower one, and what to do."""
    why = f"{dtype} served as {served}: {backend.library} as configured holds no {dtype}"
    remedy = _REMEDIES.get(backend.library) if backend.name != "jax:x64-off" else "the row is JAX without x64; see jax"
    return f"{why}; {remedy}" if remedy else why
