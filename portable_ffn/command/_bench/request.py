"""What the bench is asked for, refused before anything is measured where it can't be run."""

import importlib.util
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from portable_ffn._arrays.dtype import LOW_PRECISION
from portable_ffn.command import CannotRun
from portable_ffn.command._bench.contenders import CONTENDERS

DTYPES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
"""Those that are measured, with their bytes."""


def libraries(asked: list[str] | None, train: bool) -> list[str]:
    """Those asked for, else those found; NumPy has no gradient."""
    found = [name for name in CONTENDERS if importlib.util.find_spec(name)]
    missing = [name for name in asked or [] if name not in found]
    if missing:
        raise CannotRun(f"not found: {', '.join(missing)}; install it or name other --libraries")
    left = [name for name in asked or found if not (train and name == "numpy")]
    if train and ("numpy" in (asked or []) or not left):
        raise CannotRun("NumPy has nothing to train: --train measures gradients, which torch and jax have")
    return left


def dtypes(asked: list[str], train: bool) -> list[str]:
    """Those asked for; training is measured against what one would write, and in half precision that is not."""
    low = [dtype for dtype in asked if dtype in LOW_PRECISION]
    if train and low:
        raise CannotRun(f"--train measures float32 and float64, got {', '.join(low)}")
    return asked


def numbers(option: str, text: str, separator: str, count: int | None = None) -> tuple[int, ...]:
    """Lengths that are written with a separator."""
    parts = text.split(separator)
    if not all(part.isdecimal() for part in parts) or (count is not None and len(parts) != count):
        raise CannotRun(f"lengths must be numbers with {separator} between them, got {text!r}")
    lengths = tuple(int(part) for part in parts)
    if 0 in lengths:
        raise CannotRun(f"{option}: lengths must be 1 or more, since nothing is measured on none, got {text!r}")
    return lengths


def refuse_too_large(
    asked: Iterable[tuple[str, str, tuple[int, ...], tuple[int, ...], str]], gated: Iterable[str]
) -> None:
    """Refuse the first case that can't fit, before the others are measured: some systems end who asks for too much."""
    there = _memory()
    for _, dtype, leading, (d_model, d_ff), activation in asked:
        needed = _bytes(DTYPES[dtype], positions(leading), d_model, d_ff, 3 if activation in gated else 2)
        if there is not None and needed > there:
            size, tokens = f"{d_model}/{d_ff}", "x".join(map(str, leading))
            raise CannotRun(
                f"--sizes {size} with --tokens {tokens} in {dtype} needs {needed / 2**30:.3g} GiB of memory at least, "
                f"and there are {there / 2**30:.3g}; ask for less"
            )


def _bytes(itemsize: int, count: int, d_model: int, d_ff: int, matrices: int) -> int:
    """What the weights take as they are made, in float64, and in their dtype; x, one hidden layer and the output."""
    return matrices * d_model * d_ff * (8 + itemsize) + count * (2 * d_model + d_ff) * itemsize


def _memory() -> int | None:
    """The bytes of this machine, or of the container where that has fewer; None where the system doesn't tell."""
    physical = _physical()
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return physical
    return min(physical, int(limit)) if physical is not None and limit.isdecimal() else physical


if sys.platform == "win32":

    def _physical() -> int | None:
        """Windows tells it in another way."""
        return None

else:

    def _physical() -> int | None:
        """The bytes of this machine, as POSIX tells them."""
        try:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (OSError, ValueError):
            return None


def positions(leading: tuple[int, ...]) -> int:
    """How many positions there are."""
    result = 1
    for length in leading:
        result *= length
    return result
