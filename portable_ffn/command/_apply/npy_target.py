"""An .npy file that is being written beside the place where it will stand.

Until it is finished its first bytes say whose it is, and no reader takes it for an array; its header comes last.
"""

import os
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from portable_ffn.checkpoint._files.sync import sync_directory
from portable_ffn.command._apply.npy import Layout, Rows, open_npy
from portable_ffn.command._apply.output import must_be_replaceable, take_mode
from portable_ffn.command._apply.own_files import (
    identity,
    in_the_way,
    open_own,
    read_all,
    stands_at,
    sync,
    write_at,
)

MARK = b"unfinished output of portable-ffn apply\n"


class NpyTarget(Rows):
    """The unfinished file, and its place."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], fortran: bool) -> None:
        self.partial = path.with_name(path.name + ".partial")
        header = BytesIO()
        described = {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": fortran, "shape": shape}
        npy_format.write_array_header_1_0(header, described)
        self._header = header.getvalue()
        super().__init__(path, Layout(shape, dtype, fortran, len(self._header)))
        self.must_be_free()

    def must_be_free(self) -> None:
        """CannotRun where the finished file must not take its place."""
        self._mode = must_be_replaceable(self.path)

    def claim(self, published: Any) -> None:
        """Have the unfinished file, which is recognised as such before a byte of it is written."""
        self.close()
        self.descriptor = open_own(self.partial, create=True, mode=0o666 if self._mode is None else self._mode)
        begins = read_all(self.descriptor, len(MARK))
        if begins != MARK[: len(begins)] and not stands_at(self.partial, published):
            raise in_the_way(self.partial)
        write_at(self.descriptor, 0, MARK)
        sync(self.descriptor)

    def create(self, block: int) -> None:
        """Begin anew. The room on the disk is reserved, so that a full disk is told before the work, not after it."""
        try:
            os.ftruncate(self.descriptor, len(MARK))
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self.descriptor, 0, self.layout.nbytes)
            else:
                os.ftruncate(self.descriptor, self.layout.nbytes)
        except OSError:
            self.partial.unlink()
            raise

    def reopen(self, published: Any) -> bool:
        """Go on with what is there; False where there is nothing to go on with."""
        self.close()
        try:
            self.descriptor = open_own(self.partial, create=False)
        except FileNotFoundError:
            return False
        whole = os.fstat(self.descriptor).st_size == self.layout.nbytes
        begins = read_all(self.descriptor, len(MARK))
        return whole and (begins == MARK or stands_at(self.partial, published))

    def finished(self, published: Any) -> bool:
        """Whether an earlier run gave the finished file its name, which is open for reading then."""
        if not stands_at(self.path, published):
            return False
        source = open_npy(self.path)
        self.close()
        self.descriptor, source.descriptor = source.descriptor, -1
        return (source.shape, source.dtype, source.layout.offset) == (self.shape, self.dtype, self.layout.offset)

    def identity(self) -> list[int]:
        """Which file it is, whatever its name."""
        return identity(os.fstat(self.descriptor))

    def sync(self) -> None:
        """Have what was written on the disk."""
        sync(self.descriptor)

    def publish(self) -> None:
        """Give the finished file its header and its name, in one step."""
        write_at(self.descriptor, 0, self._header)
        take_mode(self.descriptor, self.path)
        self.sync()
        self.close()
        os.replace(self.partial, self.path)
        sync_directory(self.path.parent)
