"""A Zarr array that is being written beside the place where it will stand.

Until it is finished its directory holds a file that says whose it is.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from portable_ffn.checkpoint._files.sync import sync_directory
from portable_ffn.command import CannotRun
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
MARK_NAME = ".portable-ffn-apply"


class ZarrTarget:
    """The unfinished directory, and its place."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], chunks: tuple[int, ...]) -> None:
        self.path = path
        self.partial = path.with_name(path.name + ".partial")
        self.mark = self.partial / MARK_NAME
        self.shape, self.dtype, self.rows = shape, dtype, shape[0]
        self.chunks = (*chunks[:-1], shape[-1])
        self.array: Any = None

    def must_be_free(self) -> None:
        """CannotRun where the finished array has no place."""
        if os.path.lexists(self.path):
            raise CannotRun(
                f"{self.path}: is there already, and a directory can't be replaced in one step; remove it first"
            )

    def claim(self, published: Any) -> None:
        """Have the unfinished directory, which is recognised as such before anything in it is written."""
        try:
            self.partial.mkdir()
        except FileExistsError:
            if not self._is_ours(published):
                raise in_the_way(self.partial) from None
        descriptor = open_own(self.mark, create=True)
        try:
            write_at(descriptor, 0, MARK)
            sync(descriptor)
        finally:
            os.close(descriptor)

    def create(self, block: int) -> None:
        """Begin anew, with chunks that no two blocks share; the mark is the last to go and the first to come."""
        for inside in self.partial.iterdir():
            if inside.name == MARK_NAME:
                continue
            if inside.is_dir() and not inside.is_symlink():
                shutil.rmtree(inside)
            else:
                inside.unlink()
        rows = self.chunks[0] if block % self.chunks[0] == 0 else block
        chunks = tuple(max(1, min(n, length)) for n, length in zip((rows, *self.chunks[1:]), self.shape, strict=True))
        self.array = zarr.create_array(self.partial, shape=self.shape, chunks=chunks, dtype=self.dtype, fill_value=0)

    def reopen(self, published: Any) -> bool:
        """Go on with what is there; False where there is nothing to go on with."""
        if not self._is_ours(published):
            return False
        for torn in self.partial.rglob("*.partial"):  # what zarr was writing to rename it
            torn.unlink()
        return self._open(self.partial, "r+")

    def finished(self, published: Any) -> bool:
        """Whether an earlier run gave the finished array its name, which is open for reading then."""
        return stands_at(self.path, published) and self._open(self.path, "r")

    def identity(self) -> list[int]:
        """Which directory it is, whatever its name."""
        return identity(os.lstat(self.partial))

    def read(self, start: int, stop: int) -> Any:
        """The rows from `start` up to `stop`."""
        return self.array[start:stop]

    def write(self, start: int, block: Any) -> None:
        """Put rows in their place."""
        self.array[start : start + len(block)] = block

    def close(self) -> None:
        """Nothing is held open."""

    def sync(self) -> None:
        """Nothing: a run that goes on reads every row again before it trusts it."""

    def publish(self) -> None:
        """Give the finished array its name, in one step."""
        if hasattr(os, "sync"):
            os.sync()
        self.mark.unlink(missing_ok=True)
        os.rename(self.partial, self.path)
        sync_directory(self.path.parent)

    def _is_ours(self, published: Any) -> bool:
        """Whether what stands there is an unfinished directory: marked, told by the journal, or empty."""
        if self.partial.is_symlink() or not self.partial.is_dir():
            return False
        if stands_at(self.partial, published) or not any(self.partial.iterdir()):
            return True
        try:
            descriptor = open_own(self.mark, create=False)
        except (OSError, CannotRun):
            return False
        try:
            begins = read_all(descriptor, len(MARK))
            # A mark that is torn was written before anything else.
            return begins == MARK or (MARK.startswith(begins) and len(list(self.partial.iterdir())) == 1)
        finally:
            os.close(descriptor)

    def _open(self, path: Path, mode: Any) -> bool:
        """Whether the array of this shape and dtype is there."""
        try:
            self.array = zarr.open_array(path, mode=mode)
        except Exception:  # whatever its metadata make zarr raise, there is nothing to go on with
            return False
        return tuple(self.array.shape) == self.shape and self.array.dtype == self.dtype
