"""How many rows fit: measured on the network itself, since only it knows what it holds at once.

NumPy tells tracemalloc of every array it allocates; mapped weights and the work space of BLAS are added.
"""

import mmap
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from portable_ffn._network.feed_forward import feed_forward
from portable_ffn.command import CannotRun

# Bytes. What BLAS (3 to 14 MiB on two cores at up to 2048 rows), the allocator and the journal take beyond arrays.
RESERVE = 24 * 2**20
# Bytes. By how much the measure differs from run to run, at most.
WAVERING = 2**18
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
        # A first call imports what NumPy's networks need, which is not theirs.
        one = np.ones((1, 1))
        feed_forward(one, one, None, one, None)
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

    def now(self) -> int:
        """What is held at this moment."""
        return tracemalloc.get_traced_memory()[0] - self._before + self.mapped

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

    Larger and larger blocks are tried, each as large as what the last ones took allows. Raises CannotRun where not even
    one row fits beside what is held already.
    """
    room = limit - RESERVE
    held = _peak(step, 1, source, tracing)
    held = _peak(step, 1, source, tracing)  # the first call also paid for what is only built once
    if held > room:
        raise CannotRun(
            f"--memory must be {in_words(held + RESERVE + WAVERING)} at least for these weights and one row, "
            f"got {in_words(limit)}",
        )
    # Until a second block tells what one more row takes, it may be all that the first one took.
    block, each = 1, max(held - tracing.now(), 1.0)
    while block < source.rows:
        most = int((room - held) / each) + block
        larger = _whole(min(most, max(MOST_ROWS, source.unit), block * 16), source.unit)
        if larger <= block:
            break
        then = _peak(step, larger, source, tracing)
        if then > room:
            break
        each = max((then - held) / (min(larger, source.rows) - block), 1.0)
        block, held = larger, then
    return block


def _peak(step: Callable[[int, int], Any], rows: int, source: Counted, tracing: Tracing) -> int:
    """What a block of so many rows takes, with the copy of the result that writing it may make."""
    tracing.peak()
    y = step(0, min(rows, source.rows))
    y.copy()
    return tracing.peak()


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
