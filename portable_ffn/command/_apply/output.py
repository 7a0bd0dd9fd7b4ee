"""Where the output goes, refused before any work where it can't go there."""

import contextlib
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

from portable_ffn.command import CannotRun


def settle(output: str, inputs: Iterable[Path]) -> Path:
    """The path of the output, links followed; CannotRun where it can't be written, or is one of the inputs."""
    path = Path(os.path.realpath(Path(output).expanduser()))
    there = os.path.lexists(path)
    for other in inputs:
        if path == Path(os.path.realpath(other)) or (there and other.exists() and path.samefile(other)):
            raise CannotRun(f"{output}: the output must be another file than {other}, which is read")
    parent = path.parent
    if not parent.is_dir():
        raise CannotRun(f"{output}: its directory must exist, {parent} does not; make it first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise CannotRun(f"{output}: its directory must be writable, {parent} is not")
    return path


def must_be_replaceable(path: Path) -> int | None:
    """The mode of the file that the output takes the place of, None where there is none.

    Refuses a device, a pipe, a directory, and what is there to be read alone.
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        kind = "a directory" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise CannotRun(f"{path}: the output must be a regular file, this is {kind}")
    if not mode & 0o222 or not os.access(path, os.W_OK):  # the superuser may write it, and shouldn't
        raise CannotRun(f"{path}: is there and read-only; make it writable, or name another output")
    return stat.S_IMODE(mode)


def take_mode(descriptor: int, path: Path) -> None:
    """Give a finished file the mode, and as far as one may the owner, of the one whose place it takes."""
    mode = must_be_replaceable(path)
    if mode is not None and sys.platform != "win32":
        owner, mine = os.stat(path), os.fstat(descriptor)
        if (owner.st_uid, owner.st_gid) != (mine.st_uid, mine.st_gid):
            with contextlib.suppress(OSError):  # only the superuser gives files away
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
        os.fchmod(descriptor, mode)
