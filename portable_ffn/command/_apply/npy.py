"""The rows of an .npy file, read and written in blocks without mapping it, in the order in which it holds them.

A mapped file's pages count as the process's memory until the system takes them back; what is read into a block is
gone with the block. In C order a row is contiguous, in Fortran order a column is: then rows are counted with the
first axis fastest, so that input and output files of one order hold the same row at the same place.
"""

import contextlib
import math
import os
import stat
import time
import warnings
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from portable_ffn._arrays.dtype import COMPUTABLE, dtype_name
from portable_ffn.command import CannotRun
from portable_ffn.command._apply.own_files import version, write_at

Block = npt.NDArray[Any]

_NONBLOCK = sum(getattr(os, name, 0) for name in ("O_BINARY", "O_CLOEXEC", "O_NONBLOCK"))
# Seconds. Systems tell the time of a change in steps of up to a hundredth.
_CLOCK = 0.02


class Layout(NamedTuple):
    """What an .npy file says of its array; `offset` is where the numbers begin."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    offset: int

    @property
    def rows(self) -> int:
        """How many rows, over all leading axes."""
        return math.prod(self.shape[:-1])

    @property
    def nbytes(self) -> int:
        """The size of the whole file."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize


class Rows:
    """An .npy file as `rows` rows of `width` numbers."""

    def __init__(self, path: Path, layout: Layout, descriptor: int = -1) -> None:
        self.path, self.layout, self.descriptor = path, layout, descriptor
        self.shape, self.dtype = layout.shape, layout.dtype
        self.rows, self.width = layout.rows, layout.shape[-1]

    def read(self, start: int, stop: int) -> Block:
        """The rows from `start` up to `stop`, in the machine's byte order."""
        dtype, n = self.layout.dtype, stop - start
        if not self.layout.fortran:
            block = np.empty((n, self.width), dtype)
            self._read_into(block, start * self.width)
        else:
            columns = np.empty((self.width, n), dtype)
            for k in range(self.width):
                self._read_into(columns[k], k * self.rows + start)
            block = columns.T
        return block if dtype.isnative else block.astype(dtype.newbyteorder("="))

    def write(self, start: int, block: Block) -> None:
        """Put rows in their place."""
        if not self.layout.fortran:
            self._write(np.ascontiguousarray(block), start * self.width)
        else:
            columns = np.ascontiguousarray(block.T)
            for k in range(self.width):
                self._write(columns[k], k * self.rows + start)

    def close(self) -> None:
        """Let go of the file."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _read_into(self, block: Block, place: int) -> None:
        """Numbers from the place of the first one."""
        left = block.data.cast("B") if block.size else memoryview(b"")
        with FileIO(self.descriptor, closefd=False) as file:
            file.seek(self.layout.offset + place * block.itemsize)
            while left:
                count = file.readinto(left)
                if not count:
                    raise CannotRun(f"{self.path}: has been cut off while it was read")
                left = left[count:]

    def _write(self, block: Block, place: int) -> None:
        """Numbers to the place of the first one."""
        if block.size:
            write_at(self.descriptor, self.layout.offset + place * block.itemsize, block.data.cast("B"))


class NpySource(Rows):
    """An .npy file that is read."""

    unit = 1

    def __init__(self, path: Path, layout: Layout, descriptor: int) -> None:
        super().__init__(path, layout, descriptor)
        self.version = _settled(descriptor)

    def identity(self) -> list[Any]:
        """What changes when the file does."""
        layout = self.layout
        return [list(layout.shape), layout.dtype.str, layout.fortran, *self.version[2:4]]

    def again(self) -> "NpySource | None":
        """What stands under the name now, opened anew; None where it is the file of before, unchanged."""
        source = open_npy(self.path)
        if source.version == self.version:
            source.close()
            return None
        return source

    def same_layout(self, other: "NpySource") -> bool:
        """Whether rows mean the same in both."""
        return self.layout == other.layout


def open_npy(path: Path) -> NpySource:
    """An .npy file of at least one axis, whose numbers a network takes; CannotRun where it is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _NONBLOCK)
    except FileNotFoundError:
        raise CannotRun(f"{path}: no such file") from None
    except OSError as error:
        raise CannotRun(f"{path}: can't be read: {error.strerror or error}") from None
    try:
        layout = _layout_of(path, descriptor)
        if not layout.shape:
            raise CannotRun(f"{path}: must have shape (..., d_model), at least one axis, got a single number")
        return NpySource(path, layout, descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def _layout_of(path: Path, descriptor: int) -> Layout:
    """The layout that the header of an open file tells."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        kind = "a directory" if stat.S_ISDIR(status.st_mode) else "a device or a pipe"
        raise CannotRun(f"{path}: must be a regular file, since its rows are read more than once, this is {kind}")
    unreadable = CannotRun(f"{path}: must be an .npy file of numbers, and whole; write it with numpy.save")
    with open(descriptor, "rb", closefd=False) as file, warnings.catch_warnings(action="ignore"):
        if file.read(4) in (b"PK\x03\x04", b"PK\x05\x06"):
            raise CannotRun(
                f"{path}: must be an .npy file, got an archive of several; save the one array with numpy.save"
            )
        file.seek(0)
        try:
            kind_of_header = npy_format.read_magic(file)
            read = npy_format.read_array_header_1_0 if kind_of_header[0] == 1 else npy_format.read_array_header_2_0
            shape, fortran, dtype = read(file)
        except Exception:  # whatever a header makes NumPy's parser raise
            raise unreadable from None
        layout = Layout(shape, dtype, fortran and sum(n > 1 for n in shape) > 1 and 0 not in shape, file.tell())
    if dtype.hasobject or any(n < 0 for n in shape) or status.st_size < layout.nbytes:
        raise unreadable
    if dtype_name(dtype) not in COMPUTABLE:
        hint = "; NumPy's format has no bfloat16, save it as float32" if dtype.itemsize == 2 else ""
        raise CannotRun(f"{path}: must hold real floating numbers, integers or booleans, got {dtype}{hint}")
    return layout


def _settled(descriptor: int) -> list[int]:
    """The version of a file that any later change will change.

    What others wrote to it by a map is brought to the disk, so that the next such write is told as a change; and a
    change of this very moment is waited for, since the clock of changes goes in steps.
    """
    with contextlib.suppress(OSError):  # what can't be written can't be brought to the disk
        os.fsync(descriptor)
    while True:
        status = os.fstat(descriptor)
        since = time.time() - max(status.st_ctime, status.st_mtime)
        if not 0 <= since < _CLOCK:
            return version(status)
        time.sleep(_CLOCK - since)
