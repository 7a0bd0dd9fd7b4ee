"""The rows of an .npy file, read and written in blocks without mapping it, in the order in which it holds them.

A mapped file's pages count as the process's memory until the system takes them back; what is read into a block is
gone with the block. In C order a row is contiguous, in Fortran order a column is: then rows are counted with the
first axis fastest, so that input and output files of one order hold the same row at the same place.
"""

import math
import os
from io import BytesIO, FileIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from portable_ffn._arrays.dtype import COMPUTABLE, dtype_name
from portable_ffn.checkpoint._files.sync import sync_directory
from portable_ffn.command import CannotRun
from portable_ffn.command._apply.output import must_be_regular

Block = npt.NDArray[Any]


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

    def __init__(self, layout: Layout) -> None:
        self._file: FileIO | None = None
        self.layout = layout
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

    @property
    def file(self) -> FileIO:
        """The file, which is unbuffered."""
        assert self._file is not None
        return self._file

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()

    def _read_into(self, block: Block, place: int) -> None:
        """Numbers from the place of the first one."""
        self.file.seek(self.layout.offset + place * block.itemsize)
        left = block.data.cast("B") if block.size else memoryview(b"")
        while left:
            count = self.file.readinto(left)
            if not count:
                raise CannotRun(f"{self.file.name}: has been cut off while it was read")
            left = left[count:]

    def _write(self, block: Block, place: int) -> None:
        """Numbers to the place of the first one; an unbuffered file may take them in pieces."""
        self.file.seek(self.layout.offset + place * block.itemsize)
        left = block.data.cast("B") if block.size else memoryview(b"")
        while left:
            left = left[self.file.write(left) or 0 :]


class NpySource(Rows):
    """An .npy file that is read."""

    unit = 1

    def __init__(self, path: Path, layout: Layout) -> None:
        super().__init__(layout)
        self._file = FileIO(path)

    def identity(self) -> list[Any]:
        """What changes when the file does."""
        status = os.fstat(self.file.fileno())
        layout = self.layout
        return [list(layout.shape), layout.dtype.str, layout.fortran, status.st_size, status.st_mtime_ns]

    def target(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> "NpyTarget":
        """The file that the results go to, in the same order."""
        must_be_regular(path)
        return NpyTarget(path, shape, dtype, self.layout.fortran)


def open_npy(path: Path) -> NpySource:
    """An .npy file of at least one axis."""
    layout = _layout_of(path)
    if not layout.shape:
        raise CannotRun(f"{path}: must have shape (..., d_model), at least one axis, got a single number")
    return NpySource(path, layout)


def _layout_of(path: Path) -> Layout:
    """The layout of an .npy file whose numbers a network takes; CannotRun where it is none."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise CannotRun(f"{path}: no such file") from None
    except OSError as error:
        raise CannotRun(f"{path}: can't be read: {error.strerror or error}") from None
    except (ValueError, EOFError):
        raise CannotRun(f"{path}: must be an .npy file of numbers, and whole; write it with numpy.save") from None
    if not isinstance(array, np.memmap):
        raise CannotRun(f"{path}: must be an .npy file, got an archive of several; save the one array with numpy.save")
    if dtype_name(array.dtype) not in COMPUTABLE:
        hint = "; NumPy's format has no bfloat16, save it as float32" if array.dtype.itemsize == 2 else ""
        raise CannotRun(f"{path}: must hold real floating numbers, integers or booleans, got {array.dtype}{hint}")
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    return Layout(array.shape, array.dtype, fortran, int(array.offset))


class NpyTarget(Rows):
    """An .npy file that is being written beside the place where it will stand."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], fortran: bool) -> None:
        self.path = path
        self.partial = path.with_name(path.name + ".partial")
        header = BytesIO()
        described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": fortran, "shape": shape}
        np.lib.format.write_array_header_1_0(header, described)
        self._header = header.getvalue()
        super().__init__(Layout(shape, dtype, fortran, len(self._header)))

    def create(self, block: int) -> None:
        """Begin anew. The room on the disk is reserved, so that a full disk is told before the work, not after it."""
        self._file = FileIO(self.partial, "w+")
        try:
            self.file.write(self._header)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self.file.fileno(), 0, self.layout.nbytes)
            else:
                self.file.truncate(self.layout.nbytes)
        except OSError:
            self.partial.unlink()
            raise

    def reopen(self) -> bool:
        """Go on with what is there; False where there is nothing to go on with."""
        try:
            self._file = FileIO(self.partial, "r+")
        except FileNotFoundError:
            return False
        whole = os.fstat(self.file.fileno()).st_size == self.layout.nbytes
        return whole and self.file.read(len(self._header)) == self._header

    def sync(self) -> None:
        """Have what was written on the disk."""
        os.fsync(self.file.fileno())

    def publish(self) -> None:
        """Give the finished file its name, in one step."""
        self.sync()
        self.file.close()
        os.replace(self.partial, self.path)
        sync_directory(self.path.parent)
