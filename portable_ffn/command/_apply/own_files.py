"""The files that a run keeps beside its output: opened without following links, locked, brought to the disk.

What the three kinds of systems do otherwise stands here, and nowhere else.
"""

import errno
import os
import stat
import sys
from pathlib import Path

from portable_ffn.command import CannotRun

# O_NONBLOCK: a pipe that stands in a file's place must not hold the run up. O_BINARY is of Windows alone.
_FLAGS = sum(getattr(os, name, 0) for name in ("O_BINARY", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"))
_LINK = (errno.ELOOP, errno.EMLINK)
_TRIES = 100

if sys.platform == "win32":
    import msvcrt

    # Windows keeps others from reading what is locked, so a byte is locked that no journal ever has.
    _LOCKED_BYTE = 2**30

    def _lock(descriptor: int) -> bool:
        """Whether the file is ours alone from now on."""
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                return False
            raise
        return True

    def sync(descriptor: int) -> None:
        """Have what was written on the disk."""
        os.fsync(descriptor)

else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        """Whether the file is ours alone from now on."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def sync(descriptor: int) -> None:
        """Have what was written on the disk; macOS keeps it in the drive's own memory unless told otherwise."""
        if sys.platform == "darwin":
            try:
                fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            except OSError:  # a file system that doesn't know it
                pass
            else:
                return
        os.fsync(descriptor)


def open_own(path: Path, create: bool, mode: int = 0o666) -> int:
    """A descriptor to read and write a regular file; CannotRun where a link, a directory or a device stands there."""
    try:
        if path.is_symlink():  # where the system has no O_NOFOLLOW
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        descriptor = os.open(path, os.O_RDWR | _FLAGS | (os.O_CREAT if create else 0), mode)
    except OSError as error:
        if error.errno in _LINK:
            raise in_the_way(path, "a link") from None
        if error.errno == errno.EISDIR or path.is_dir():
            raise in_the_way(path, "a directory") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise in_the_way(path, "a device or a pipe")
    return descriptor


def open_locked(path: Path) -> int:
    """As `open_own`, made where it is missing, and nobody else's until it is closed.

    A file that was unlinked between its opening and its locking is locked in vain: then what stands under its name is
    opened anew. Raises CannotRun where another run holds it.
    """
    for _ in range(_TRIES):
        descriptor = open_own(path, create=True)
        try:
            locked = _lock(descriptor)
        except OSError as error:
            os.close(descriptor)
            raise CannotRun(f"{path}: can't be locked ({error.strerror}); name an output on another disk") from None
        if locked and stands_at(path, identity(os.fstat(descriptor))):
            return descriptor
        os.close(descriptor)
        if not locked:
            break
    raise CannotRun(f"{path.with_suffix('')}: another run is writing it; wait for that one")


def identity(status: os.stat_result) -> list[int]:
    """What tells a file from every other one that is there at the same time."""
    return [status.st_dev, status.st_ino]


def version(status: os.stat_result) -> list[int]:
    """What tells a file from itself after a change."""
    return [*identity(status), status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def stands_at(path: Path, file: object) -> bool:
    """Whether the file, or directory, of that identity stands under that name itself, not behind a link."""
    try:
        return identity(os.lstat(path)) == file
    except OSError:
        return False


def in_the_way(path: Path, what: str = "somebody else's") -> CannotRun:
    """The error for what stands where a file of the run's own should."""
    return CannotRun(f"{path}: a file of this command's own stands here while it works, and this is {what}; move it")


def read_all(descriptor: int, most: int) -> bytes:
    """The first bytes of a file, `most` at most."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    pieces, left = [], most
    while left and (piece := os.read(descriptor, min(left, 2**20))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def write_at(descriptor: int, place: int, data: bytes | memoryview) -> None:
    """Bytes to their place; the system may take them in pieces."""
    os.lseek(descriptor, place, os.SEEK_SET)
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
