"""Where rows come from and where they go: what an .npy file and a Zarr array have in common."""

from pathlib import Path
from typing import Any, Protocol


class Source(Protocol):
    """Where rows come from."""

    path: Path
    rows: int
    unit: int

    def read(self, start: int, stop: int) -> Any:
        """The rows from `start` up to `stop`."""

    def again(self) -> Any:
        """What stands under the name now; None where nothing has changed."""

    def same_layout(self, other: Any) -> bool:
        """Whether rows mean the same in both."""

    def close(self) -> None:
        """Let go of the files."""


class Target(Protocol):
    """Where rows go: an .npy file, or a Zarr array. `published` is what the journal says is about to be published."""

    path: Path
    rows: int

    def must_be_free(self) -> None:
        """CannotRun where the finished target must not take its place."""

    def claim(self, published: Any) -> None:
        """Have the unfinished target, which is recognised before anything is written; CannotRun where it is none."""

    def create(self, block: int) -> None:
        """Begin anew, for blocks of so many rows."""

    def reopen(self, published: Any) -> bool:
        """Go on with what is there; False where there is nothing to go on with."""

    def finished(self, published: Any) -> bool:
        """Whether an earlier run has published it already; then it can be read."""

    def identity(self) -> list[int]:
        """Which file or directory it is."""

    def read(self, start: int, stop: int) -> Any:
        """The rows from `start` up to `stop`."""

    def write(self, start: int, block: Any) -> None:
        """Put rows in their place."""

    def sync(self) -> None:
        """Have what was written on the disk."""

    def publish(self) -> None:
        """Give the finished target its name."""

    def close(self) -> None:
        """Let go of the files."""
