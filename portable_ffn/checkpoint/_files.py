"""Regular files, opened without trust and mapped into memory."""

import mmap
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import numpy as np

from portable_ffn.checkpoint._dtypes import numpy_dtype
from portable_ffn.checkpoint._errors import CheckpointError

JSON_LIMIT: Final = 100_000_000
"""Bytes; the limit that safetensors sets to its headers, here for every JSON text."""


class TensorInfo(NamedTuple):
    """One tensor of a file: its dtype's common name, its shape, and where its bytes are."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path
    offset: int
    nbytes: int


def status(path: Path) -> os.stat_result:
    """The file's status, links followed; FileNotFoundError if it is missing."""
    try:
        return path.stat()
    except FileNotFoundError:
        raise FileNotFoundError(f"no such file or directory: {path}") from None
    except (OSError, ValueError) as error:
        # ValueError: a NUL in the path. OSError: a loop of links, no permission, a name that is too long.
        raise CheckpointError(f"{path}: can't be opened: {error}") from None


def open_regular(path: Path) -> BinaryIO:
    """The file opened for reading; anything but a regular file is refused before it can block."""
    mode = status(path).st_mode
    if stat.S_ISDIR(mode):
        raise CheckpointError(f"{path}: is a directory; a file is needed here")
    if not stat.S_ISREG(mode):
        raise CheckpointError(f"{path}: is neither a file nor a directory")
    try:
        return path.open("rb")
    except OSError as error:
        raise CheckpointError(f"{path}: can't be opened: {error}") from None


def read_text(path: Path) -> bytes:
    """All bytes of a JSON file, of at most JSON_LIMIT bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > JSON_LIMIT:
            raise CheckpointError(f"{path}: {size} bytes of JSON; at most {JSON_LIMIT} are read")
        return file.read(JSON_LIMIT)


class Mapped:
    """A file mapped into memory at the first use; arrays are read-only views of it."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size
        self._map: mmap.mmap | None = None

    def __getstate__(self) -> tuple[Path, int]:
        """Without the map, which belongs to the process."""
        return self.path, self.size

    def __setstate__(self, state: tuple[Path, int]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def array(self, info: TensorInfo) -> np.ndarray:
        """The tensor as a view of the file."""
        dtype = numpy_dtype(info.dtype)
        if info.nbytes == 0:
            empty = np.empty(info.shape, dtype)
            empty.flags.writeable = False
            return empty
        if self._map is None:
            with open_regular(self.path) as file:
                size = os.fstat(file.fileno()).st_size
                # A file that has shrunk would kill the process at the first touch of a lost page.
                if size != self.size:
                    raise CheckpointError(f"{self.path}: had {self.size} bytes when opened and has {size} now; open it again")
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        count = info.nbytes // dtype.itemsize
        flat = np.frombuffer(self._map, dtype, count, info.offset)
        if not flat.flags.aligned:
            flat = flat.copy()
            flat.flags.writeable = False
        return flat.reshape(info.shape)
