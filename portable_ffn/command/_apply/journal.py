"""What is finished, kept beside an unfinished output, so that a run that was killed goes on where it stood.

OUTPUT.journal is a line that says what the run is (its key) and how many rows its blocks have, then a line for each
stretch of rows that is safely on the disk: the row after the last one, a CRC of the rows since the line before, and
one of the rows of the input that they were made of. A line is written after the rows it speaks of have reached the
disk; a line that is cut off, or whose rows have another CRC, counts for nothing. The last line says which file or
directory is about to take the output's name.
"""

import json
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from portable_ffn.command._apply.own_files import in_the_way, open_locked, read_all, sync, write_at

# Every journal begins with this; what begins otherwise is somebody else's file.
BEGINS = b'{"portable_ffn": "apply"'
# Bytes. A journal has a line of at most 60 bytes for every quarter of a second.
MOST = 2**26


class Crcs(NamedTuple):
    """Of a stretch of rows: of what was made, and of what it was made of."""

    made: int
    read: int


class Head(NamedTuple):
    """What a run is."""

    key: dict[str, Any]
    block: int


class Journal:
    """The journal of one output, held by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = open_locked(path)
        self.head: Head | None = None
        self.publishing: Any = None
        # Where the line ends that speaks of the rows up to here, and their CRCs.
        self._stretches: list[tuple[int, Crcs, int]] = []
        self._end = 0
        try:
            content = read_all(self.descriptor, MOST)
            if not _is_journal(content):
                raise in_the_way(path)
        except BaseException:
            self.close()
            raise
        self.empty = not content
        self._understand(content)

    def begin(self, key: dict[str, Any], block: int) -> None:
        """Start with what the run is and how many rows its blocks have."""
        self.forget()
        told = {"block": block, "key": key}
        self._append({"portable_ffn": "apply", **told, "crc": _crc_of_json(told)})
        self.head = Head(key, block)

    def forget(self) -> None:
        """Forget everything, for good: what is on the disk is about to change."""
        self.head, self.publishing, self._stretches, self._end = None, None, [], 0
        os.ftruncate(self.descriptor, 0)
        sync(self.descriptor)

    def record(self, stop: int, crcs: Crcs) -> None:
        """The rows up to `stop` are on the disk."""
        self._append([stop, *crcs])
        self._stretches.append((stop, crcs, self._end))

    def publish(self, file: list[int]) -> None:
        """All rows are on the disk, and this file or directory is about to take the output's name."""
        self._append({"publishing": file})
        self.publishing = file

    def agreed(self, check: Callable[[int, int, Crcs], bool]) -> int:
        """How many rows, from the first one on, agree with their CRCs; `check(start, stop, crcs)` looks."""
        done = 0
        for stop, crcs, _ in self._stretches:
            if not check(done, stop, crcs):
                break
            done = stop
        return done

    def keep(self, rows: int) -> None:
        """Cut off what is told of rows behind the first `rows`, and of publishing."""
        self._stretches = [one for one in self._stretches if one[0] <= rows]
        end = self._stretches[-1][2] if self._stretches else self._head_end
        os.ftruncate(self.descriptor, end)
        sync(self.descriptor)
        self._end, self.publishing = end, None

    def remove(self) -> None:
        """The journal has served."""
        if os.name == "nt":  # Windows removes no open file
            self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the output."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _understand(self, content: bytes) -> None:
        """Take in what is there; what is damaged, and all behind it, counts for nothing."""
        lines = _lines(content)
        first, self._head_end = next(lines, (None, 0))
        self.head, self._end, done = _head(first), self._head_end, 0
        if self.head is None:
            return
        for line, end in lines:
            if isinstance(line, dict) and isinstance(line.get("publishing"), list):
                self.publishing, self._end = line["publishing"], end
                return
            if not _speaks_of_rows(line, done):
                return
            done = line[0]
            self._stretches.append((done, Crcs(*line[1:]), end))
            self._end = end

    def _append(self, line: Any) -> None:
        """One line, safely."""
        data = json.dumps(line).encode() + b"\n"
        write_at(self.descriptor, self._end, data)
        sync(self.descriptor)
        if not self._end:
            self._head_end = len(data)
        self._end += len(data)


def _is_journal(content: bytes) -> bool:
    """Whether a file is a journal, by its first line, which may be torn; nothing is lost by what is empty."""
    if content[: len(BEGINS)] == BEGINS[: len(content)]:
        return True
    first, _ = next(_lines(content), (None, 0))
    # An earlier version wrote these two alone.
    return isinstance(first, dict) and ("portable_ffn" in first or {"block", "key"} == first.keys())


def _lines(content: bytes) -> Iterator[tuple[Any, int]]:
    """The lines, and where each ends; None for one that is not whole or no JSON."""
    end = 0
    for line in content.splitlines(keepends=True):
        end += len(line)
        try:
            yield (json.loads(line) if line.endswith(b"\n") else None), end
        except (ValueError, RecursionError):
            yield None, end


def _head(line: Any) -> Head | None:
    """The first line, where it is as it was written."""
    if not isinstance(line, dict) or not isinstance(line.get("key"), dict):
        return None
    key, block = line["key"], line.get("block")
    if type(block) is not int or block < 1 or line.get("crc") != _crc_of_json({"block": block, "key": key}):
        return None
    return Head(key, block)


def _crc_of_json(value: Any) -> int:
    """A CRC of a value, however its text is laid out."""
    try:
        return zlib.crc32(json.dumps(value, sort_keys=True).encode())
    except RecursionError:
        return -1


def _speaks_of_rows(line: Any, done: int) -> bool:
    """Whether a line is [stop, crc, crc] and goes on from what is done."""
    return isinstance(line, list) and len(line) == 3 and all(type(n) is int for n in line) and line[0] > done


def crc_of(block: Any, crc: int = 0) -> int:
    """The CRC of an array's numbers, row by row whatever its order in memory."""
    return zlib.crc32(np.ascontiguousarray(block).data, crc) if block.size else crc


def crc_of_input(block: Any, crc: int = 0) -> int:
    """The CRC of the numbers of a block that was read, in the order in which it lies, so that none is copied."""
    return crc_of(block.T if block.T.flags.c_contiguous else block, crc)
