"""Regular files, opened without trust and mapped into memory."""

import contextlib
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Protocol

import numpy as np

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.dtypes import numpy_dtype
from portable_ffn.checkpoint._files.tensor import TensorInfo

JSON_LIMIT: Final = 100_000_000
"""Bytes. The format's own limit on a safetensors header, kept for every JSON text."""


def status(path: Path) -> os.stat_result:
    """The file's status, links followed; FileNotFoundError if it is missing."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"no such file or directory: {path}") from None
    except (OSError, ValueError) as error:
        # ValueError: a NUL in the path. OSError: a loop of links, no permission, too long a name.
        raise CheckpointError(f"{str(path)[:1000]!r} can't be opened: {str(error)[:200]}") from None


def is_directory(path: Path) -> bool:
    """Whether the path is a directory; FileNotFoundError if it is missing."""
    return stat.S_ISDIR(status(path).st_mode)


def open_regular(path: Path) -> BinaryIO:
    """The file, opened; anything but a regular file is refused before opening it could block."""
    mode = status(path).st_mode
    if stat.S_ISDIR(mode):
        raise CheckpointError(f"{path}: is a directory; a file must stand here")
    if not stat.S_ISREG(mode):
        raise CheckpointError(f"{path}: is no regular file")
    try:
        return path.open("rb")
    except OSError as error:
        raise CheckpointError(f"{path}: can't be opened: {error.strerror}") from None


def read_json(path: Path) -> bytes:
    """The bytes of a JSON file, if they are at most JSON_LIMIT."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > JSON_LIMIT:
            raise CheckpointError(f"{path}: JSON of {size} bytes; {JSON_LIMIT} are the limit")
        with reading(path):
            return file.read(size)


class Source(Protocol):
    """Whoever reads the values of a file's tensors."""

    def array(self, info: TensorInfo) -> np.ndarray[Any, Any]:
        """The tensor, read-only where it is a view of the file."""


class Identity(NamedTuple):
    """What tells a file from another that stands in its place later."""

    inode: int
    size: int
    modified: int


def identity(found: os.stat_result) -> Identity:
    """The identity of a file by its status. The device isn't part of it: it differs from machine to machine."""
    return Identity(found.st_ino, found.st_size, found.st_mtime_ns)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Inside it what the system says of a file that is being read is a CheckpointError that names the file."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"{path}: can't be read: {error.strerror or error}") from None


class Mapped:
    """A file whose header was read, mapped into memory at first use if it is still the same."""

    def __init__(self, path: Path, known: Identity) -> None:
        self.path = path
        self.known = known
        self._map: mmap.mmap | None = None

    def __reduce__(self) -> tuple[type["Mapped"], tuple[Path, Identity]]:
        """Without the map, which belongs to the process."""
        return type(self), (self.path, self.known)

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.known.size

    def array(self, info: TensorInfo) -> np.ndarray[Any, Any]:
        """The tensor as a read-only view of the file; a copy where its place is not aligned to its dtype."""
        dtype = numpy_dtype(info.dtype)
        if info.nbytes == 0:
            array = np.empty(info.shape, dtype)
        else:
            flat = np.frombuffer(self.memory(), dtype, info.nbytes // dtype.itemsize, info.offset)
            # Old writers didn't pad the header; other libraries take an unaligned view badly or not at all.
            array = (flat if flat.flags.aligned else flat.copy()).reshape(info.shape)
        array.flags.writeable = False
        return array

    def memory(self) -> mmap.mmap:
        """The whole file as memory; pages are read as they are touched."""
        if self._map is None:
            with open_regular(self.path) as file:
                refuse_another(self.path, self.known, identity(os.fstat(file.fileno())))
                with reading(self.path):
                    self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        else:
            # Where another file has taken the name, the map still is of the first one, which stays as it was.
            with contextlib.suppress(OSError):
                now = identity(self.path.stat())
                if now.inode == self.known.inode:
                    refuse_another(self.path, self.known, now)
        return self._map


class Held:
    """A reader of another format's file, asked only while the file is the one whose header was read."""

    def __init__(self, source: Source, path: Path, known: Identity) -> None:
        self.source = source
        self.path = path
        self.known = known

    def array(self, info: TensorInfo) -> np.ndarray[Any, Any]:
        """The tensor, as its reader gives it."""
        refuse_another(self.path, self.known, identity(status(self.path)))
        return self.source.array(info)


def refuse_another(path: Path, known: Identity, now: Identity) -> None:
    """CheckpointError where a file isn't the one whose header was read."""
    if now.size != known.size:
        # Touching a page that a shrunken file has lost would kill the process.
        raise CheckpointError(f"{path}: had {known.size} bytes when opened, has {now.size} now; open it again")
    if now != known:
        raise CheckpointError(
            f"{path}: was replaced or changed since it was opened, so its header may be another; open it again"
        )
