"""Zarr arrays as rows, read by Dask: a row is an index of the first axis, and blocks end where chunks do."""

import os
import stat
from pathlib import Path
from typing import Any

import dask.array as da
import zarr

from portable_ffn._arrays.dtype import COMPUTABLE, dtype_name
from portable_ffn.command import CannotRun
from portable_ffn.command._apply.own_files import version


class ZarrSource:
    """A Zarr array that is read."""

    def __init__(self, path: Path, array: Any) -> None:
        self.path = path
        self.array = array
        self.shape, self.dtype = tuple(array.shape), array.dtype
        self.rows, self.unit = self.shape[0], array.chunks[0]
        self.version = _versions(path)

    def read(self, start: int, stop: int) -> Any:
        """The rows from `start` up to `stop`; Dask's synchronous scheduler holds one chunk more than these."""
        try:
            rows: Any = da.from_zarr(self.array)  # type: ignore[no-untyped-call]
            return rows[start:stop].compute(scheduler="synchronous")
        except MemoryError:
            raise
        except Exception as error:  # of the codecs, which have no base class of their own
            told = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            raise CannotRun(f"{self.path}: rows {start} to {stop} can't be read: {told}") from None

    def close(self) -> None:
        """Nothing is held open."""

    def identity(self) -> list[Any]:
        """What changes when the array does, as far as names, sizes and times of its files tell."""
        sizes = [one[3] for one in self.version]
        newest = max((one[4] for one in self.version), default=0)
        return [list(self.shape), self.dtype.str, len(sizes), sum(sizes), newest]

    def again(self) -> "ZarrSource | None":
        """What stands under the name now, opened anew; None where it is the array of before, unchanged."""
        source = open_zarr(self.path)
        return None if source.version == self.version else source

    def same_layout(self, other: "ZarrSource") -> bool:
        """Whether rows mean the same in both."""
        return (self.shape, self.dtype, self.unit) == (other.shape, other.dtype, other.unit)


def open_zarr(path: Path) -> ZarrSource:
    """A Zarr array of at least two axes, with whole rows of numbers."""
    _refuse_pipes(path)
    try:
        array = zarr.open_array(path, mode="r")
    except Exception as error:
        raise CannotRun(f"{path}: must be a directory that holds one Zarr array: {type(error).__name__}") from None
    if array.ndim < 2:
        raise CannotRun(f"{path}: must have shape (rows, ..., d_model), two axes at least, got {tuple(array.shape)}")
    if dtype_name(array.dtype) not in COMPUTABLE:
        raise CannotRun(f"{path}: must hold real floating numbers, integers or booleans, got {array.dtype}")
    return ZarrSource(path, array)


def _versions(path: Path) -> list[list[Any]]:
    """The files of a directory by name, and what tells each from itself after a change."""
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return [[str(file.relative_to(path)), *version(file.stat())] for file in files]


def _refuse_pipes(path: Path) -> None:
    """Refuse a directory with a pipe or a device in it, since opening that could wait for ever."""
    for folder, _, names in os.walk(path):
        for name in names:
            file = Path(folder, name)
            try:
                mode = file.stat().st_mode
            except OSError:  # a broken link: zarr tells of it, or doesn't need it
                continue
            if not stat.S_ISREG(mode):
                raise CannotRun(f"{file}: must be a regular file, this is a device or a pipe")
