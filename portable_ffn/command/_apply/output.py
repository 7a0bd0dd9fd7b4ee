"""Where the output goes, refused before any work where it can't go there."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from portable_ffn.command import CannotRun


def settle(output: str, inputs: Iterable[Path]) -> Path:
    """The path of the output, links followed; CannotRun where it can't be written, or is one of the inputs."""
    path = Path(os.path.realpath(Path(output).expanduser()))
    for other in inputs:
        if path == Path(os.path.realpath(other)) or (path.exists() and other.exists() and path.samefile(other)):
            raise CannotRun(f"{output}: the output must be another file than {other}, which is read")
    parent = path.parent
    if not parent.is_dir():
        raise CannotRun(f"{output}: its directory must exist, {parent} does not; make it first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise CannotRun(f"{output}: its directory must be writable, {parent} is not")
    return path


def must_be_regular(path: Path) -> None:
    """Refuse what a finished file must not take the place of: a device, a pipe, a directory."""
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        kind = "a directory" if path.is_dir() else "a device or a pipe"
        raise CannotRun(f"{path}: the output must be a regular file, this is {kind}")
