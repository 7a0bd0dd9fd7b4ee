"""What is finished, kept beside an unfinished output, so that a run that was killed goes on where it stood.

OUTPUT.journal is a line that says what the run is (its key), then a line for each stretch of rows that is safely on
the disk: the row after the last one, and a CRC of the rows since the line before. A line is written after the rows
it speaks of have reached the disk; a line that is cut off, or whose rows have another CRC, counts for nothing.
"""

import json
import os
import zlib
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from portable_ffn.command import CannotRun


class Journal:
    """The journal of one output, held by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = FileIO(path, "a+")
        try:
            import fcntl
        except ImportError:  # Windows: there a second run is not noticed
            return
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.file.close()
            raise CannotRun(f"{path.with_suffix('')}: another run is writing it; wait for that one") from None

    def head(self) -> Any:
        """The first line, {"key": ..., "block": ...}; None where there is none."""
        return next(self._lines(), None)

    def begin(self, key: dict[str, Any], block: int) -> None:
        """Start with what the run is and how many rows its blocks have."""
        self._append({"key": key, "block": block})

    def forget(self) -> None:
        """Forget everything, for good: what is on the disk is about to change."""
        self.file.truncate(0)
        os.fsync(self.file.fileno())

    def record(self, stop: int, crc: int) -> None:
        """The rows up to `stop` are on the disk."""
        self._append([stop, crc])

    def finished(self, check: Callable[[int, int], int]) -> int:
        """How many rows are finished; `check(start, stop)` is the CRC of rows on the disk. What follows is cut off."""
        lines = self._lines()
        kept, done = [next(lines)], 0
        for line in lines:
            if not _speaks_of_rows(line, done) or check(done, line[0]) != line[1]:
                break
            kept.append(line)
            done = line[0]
        self.file.truncate(0)
        for line in kept:
            self._write(line)
        os.fsync(self.file.fileno())
        return done

    def remove(self) -> None:
        """The journal has served."""
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the output."""
        self.file.close()

    def _lines(self) -> Iterator[Any]:
        """The lines; None for one that is not whole."""
        self.file.seek(0)
        for line in self.file.readall().splitlines(keepends=True):
            try:
                yield json.loads(line) if line.endswith(b"\n") else None
            except ValueError:
                yield None

    def _append(self, line: Any) -> None:
        """One line, safely."""
        self._write(line)
        os.fsync(self.file.fileno())

    def _write(self, line: Any) -> None:
        """One line."""
        self.file.write(json.dumps(line, sort_keys=True).encode() + b"\n")


def _speaks_of_rows(line: Any, done: int) -> bool:
    """Whether a line is [stop, crc] and goes on from what is done."""
    return isinstance(line, list) and len(line) == 2 and all(type(n) is int for n in line) and line[0] > done


def crc_of(block: Any, crc: int = 0) -> int:
    """The CRC of an array's numbers, row by row whatever its order in memory."""
    return zlib.crc32(np.ascontiguousarray(block).data, crc) if block.size else crc
