"""How many rows fit: measured on the network itself, since only it knows what it holds at once.

NumPy tells tracemalloc of every array it allocates; mapped weights and the work space of BLAS are added.
"""

import mmap
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from portable_ffn._apply._refused import Refused

# Bytes. What BLAS (3 to 14 MiB on two cores at up to 2048 rows), the allocator and the journal take beyond arrays.
RESERVE = 24 * 2**20
# Beyond these a product gains nothing by more rows, and a killed run would lose more of its work.
MOST_ROWS = 2048
_UNITS = {
    "": 1,
    "B": 1,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}


def parse_size(text: str) -> int:
    """Bytes of "256MiB", "1.5 GB" or "1000000"; ValueError where it is no size."""
    number = text.strip().rstrip("BKMGTibkmgt")
    unit = _UNITS.get(text.strip()[len(number) :].upper(), 0)
    try:
        size = float(number) * unit
    except ValueError:
        size = 0.0
    if not 1 <= size < 2**63:
        raise ValueError(f"a size must be a number above zero with B, KiB, MiB, GiB, kB, MB or GB, got {text!r}")
    return int(size)


def in_words(size: float) -> str:
    """A size as people write it, rounded up."""
    for unit, step in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= step:
            return f"{-(-size * 10 // step) / 10:.1f} {unit}"
    return f"{int(size)} B"


class Tracing:
    """The memory that arrays take while this is open, `mapped` bytes of weights included."""

    def __init__(self) -> None:
        self.mapped = 0
        self._most = 0
        self._ours = not tracemalloc.is_tracing()
        if self._ours:
            tracemalloc.start()
        self._before = tracemalloc.get_traced_memory()[0]

    def peak(self) -> int:
        """The most that was held at once since the last time this was asked."""
        peak = tracemalloc.get_traced_memory()[1] - self._before + self.mapped
        tracemalloc.reset_peak()
        self._most = max(self._most, peak)
        return peak

    def most(self) -> int:
        """The most that was held at once."""
        self.peak()
        return self._most

    def close(self) -> None:
        """Stop, unless somebody else was tracing before."""
        if self._ours:
            tracemalloc.stop()


class Counted(Protocol):
    """A source of rows: how many there are, and after how many a chunk ends."""

    rows: int
    unit: int


def rows_that_fit(step: Callable[[int, int], Any], source: Counted, limit: int, tracing: Tracing) -> int:
    """How many rows a block may have, for a step that reads and computes the rows from a start to a stop.

    Raises Refused where not even one row fits beside what is held already.
    """
    if not source.rows:
        return 1
    few, many = min(source.rows, 8), min(source.rows, 64)
    peaks = {}
    for n in (few, few, many):  # the first call also pays for what is only built once
        tracing.peak()
        step(0, n)
        peaks[n] = tracing.peak()
    each = max((peaks[many] - peaks[few]) / (many - few), 1.0) if many > few else peaks[few] / few
    fixed = peaks[few] - few * each
    need = fixed + each + RESERVE
    if need > limit:
        raise Refused(
            f"--memory must be {in_words(need)} at least for these weights and one row, got {in_words(limit)}",
        )
    n = _whole(int(min((limit - RESERVE - fixed) / each, max(MOST_ROWS, source.unit))), source.unit)
    while n > 1:
        step(0, min(n, source.rows))
        if tracing.peak() <= limit - RESERVE:
            break
        n = _whole(n // 2, source.unit)
    return n


def _whole(n: int, unit: int) -> int:
    """At most n rows: whole chunks, or a power of two.

    Where the measure wavers by a few bytes the blocks stay the same in this way, and with them every bit.
    """
    return n // unit * unit if 1 < unit <= n else 1 << (max(n, 1).bit_length() - 1)


def mapped_bytes(arrays: Iterator[Any]) -> int:
    """The size of the arrays that are views of a mapped file."""
    return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray) and _is_mapped(array))


def _is_mapped(array: Any) -> bool:
    """Whether the memory of an array is a mapped file's."""
    while array is not None:
        if isinstance(array, mmap.mmap):
            return True
        array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)
    return False
