"""Zarr arrays as rows, read by Dask: a row is an index of the first axis, and blocks end where chunks do."""

import os
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import zarr

from portable_ffn._arrays.dtype import COMPUTABLE, dtype_name
from portable_ffn.checkpoint._files.sync import sync_directory
from portable_ffn.command import CannotRun


class ZarrSource:
    """A Zarr array that is read."""

    def __init__(self, path: Path, array: Any) -> None:
        self.path = path
        self.array = array
        self.shape, self.dtype = tuple(array.shape), array.dtype
        self.rows, self.unit = self.shape[0], array.chunks[0]

    def read(self, start: int, stop: int) -> Any:
        """The rows from `start` up to `stop`; Dask's synchronous scheduler holds one chunk more than these."""
        rows: Any = da.from_zarr(self.array)  # type: ignore[no-untyped-call]
        return rows[start:stop].compute(scheduler="synchronous")

    def close(self) -> None:
        """Nothing is held open."""

    def identity(self) -> list[Any]:
        """What changes when the array does, as far as names, sizes and times of its files tell."""
        files = sorted(file for file in self.path.rglob("*") if file.is_file())
        status = [file.stat() for file in files]
        newest = max((one.st_mtime_ns for one in status), default=0)
        return [list(self.shape), self.dtype.str, len(files), sum(one.st_size for one in status), newest]

    def target(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> "ZarrTarget":
        """The array that the results go to, in the same chunks as far as blocks hold them."""
        if path.exists():
            raise CannotRun(f"{path}: is there already, and a directory can't be replaced in one step; remove it first")
        return ZarrTarget(path, shape, dtype, self.array.chunks)


class ZarrTarget:
    """A Zarr array that is being written beside the place where it will stand."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], chunks: tuple[int, ...]) -> None:
        self.path = path
        self.partial = path.with_name(path.name + ".partial")
        self.shape, self.dtype, self.rows = shape, dtype, shape[0]
        self.chunks = (*chunks[:-1], shape[-1])
        self.array: Any = None

    def create(self, block: int) -> None:
        """Begin anew, with chunks that no two blocks share."""
        rows = self.chunks[0] if block % self.chunks[0] == 0 else block
        chunks = tuple(max(1, min(n, length)) for n, length in zip((rows, *self.chunks[1:]), self.shape, strict=True))
        self.array = zarr.create_array(
            self.partial,
            shape=self.shape,
            chunks=chunks,
            dtype=self.dtype,
            fill_value=0,
            overwrite=True,
        )

    def reopen(self) -> bool:
        """Go on with what is there; False where there is nothing to go on with."""
        try:
            self.array = zarr.open_array(self.partial, mode="r+")
        except (OSError, ValueError, KeyError):
            return False
        return tuple(self.array.shape) == self.shape and self.array.dtype == self.dtype

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
        os.rename(self.partial, self.path)
        sync_directory(self.path.parent)


def open_zarr(path: Path) -> ZarrSource:
    """A Zarr array of at least two axes, with whole rows of numbers."""
    try:
        array = zarr.open_array(path, mode="r")
    except Exception as error:
        raise CannotRun(f"{path}: must be a directory that holds one Zarr array: {type(error).__name__}") from None
    if array.ndim < 2:
        raise CannotRun(f"{path}: must have shape (rows, ..., d_model), two axes at least, got {tuple(array.shape)}")
    if dtype_name(array.dtype) not in COMPUTABLE:
        raise CannotRun(f"{path}: must hold real floating numbers, integers or booleans, got {array.dtype}")
    return ZarrSource(path, array)
