"""New names in a directory, brought to the disk."""

import errno
import os
from pathlib import Path


def sync_directory(path: Path) -> None:
    """Have the names in a directory on the disk, where the system can do that."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # Windows opens no directories
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems over a network sync no directory.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
