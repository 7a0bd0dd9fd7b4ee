"""Block by block from a source of rows to an unfinished target, which takes its name when it is finished.

A killed run leaves TARGET.partial and TARGET.journal; the next run of the same work goes on with them, in the same
blocks, so that it ends with the same bytes. A run of other work begins anew.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, Protocol

from portable_ffn.command import CannotRun
from portable_ffn.command._apply.journal import Journal, crc_of
from portable_ffn.command._progress import shown
from portable_ffn.command._words import one_line

SAFE_EVERY = 0.25
"""Seconds of work that a killed run may lose, where the disk is fast enough."""
SAFE_SHARE = 10
"""How many times as long as the disk took to make rows safe the next ones wait for it."""


class Target(Protocol):
    """Where rows go: an .npy file, or a Zarr array."""

    path: Path
    rows: int

    def create(self, block: int) -> None:
        """Begin anew, for blocks of so many rows."""

    def reopen(self) -> bool:
        """Go on with what is there; False where there is nothing to go on with."""

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


class Run(NamedTuple):
    """What a run did: the rows in a block, and how many rows an earlier run had finished."""

    block: int
    resumed: int


def run(
    step: Callable[[int, int], Any],
    target: Target,
    key: dict[str, Any],
    choose: Callable[[], int],
) -> Run:
    """Fill the target with what `step(start, stop)` makes, and publish it.

    `key` says what work this is; `choose` how many rows a block has, where no earlier run has settled that.
    """
    journal = Journal(target.path.with_name(target.path.name + ".journal"))
    try:
        head = journal.head()
        if isinstance(head, dict) and head.get("key") == key and target.reopen():
            block = head["block"]
            done = journal.finished(_crc_on_disk(target, block))
        else:
            _tell_of_other_work(target.path, head, key)
            block, done = _begin(target, journal, key, choose), 0
        with shown(last=True) as show:
            _fill(step, target, journal, done, block, lambda done: show(_told(target, done), done, target.rows))
        target.publish()
        journal.remove()
    except OSError as error:
        raise CannotRun(f"{target.path}: can't be written: {one_line(error)}") from None
    finally:
        target.close()
        journal.close()
    return Run(block, done)


def _tell_of_other_work(path: Path, head: Any, key: dict[str, Any]) -> None:
    """Say what has changed where an unfinished run is there and can't be gone on with."""
    if isinstance(head, dict) and isinstance(head.get("key"), dict):
        changed = [name for name in key if head["key"].get(name) != key[name]] or ["the unfinished file"]
        print(
            f"{path.name}: an earlier run was not finished; begun anew, since this has changed: {', '.join(changed)}",
            file=sys.stderr,
        )


def _told(target: Target, done: int) -> str:
    """How far it is, in words."""
    percent = 100 * done // target.rows if target.rows else 100
    return f"{target.path.name}: {done} of {target.rows} rows ({percent}%)"


def _begin(target: Target, journal: Journal, key: dict[str, Any], choose: Callable[[], int]) -> int:
    """A new target and its journal; neither stays where the target can't be made."""
    empty = journal.head() is None
    try:
        block = choose()
        empty = True
        journal.forget()
        target.create(block)
        journal.begin(key, block)
    except (OSError, CannotRun):
        if empty:
            journal.remove()
        raise
    return block


def _fill(
    step: Callable[[int, int], Any],
    target: Target,
    journal: Journal,
    done: int,
    block: int,
    told: Callable[[int], None],
) -> None:
    """Compute the rows from `done` on in blocks, and tell the journal of what is safe."""
    crc, since, pause = 0, monotonic(), SAFE_EVERY
    told(done)
    for start in range(done, target.rows, block):
        stop = min(start + block, target.rows)
        y = step(start, stop)
        target.write(start, y)
        crc = crc_of(y, crc)
        began = monotonic()
        if stop == target.rows or began - since >= pause:
            target.sync()
            journal.record(stop, crc)
            crc, since = 0, monotonic()
            pause = max(SAFE_EVERY, SAFE_SHARE * (since - began))
        told(stop)


def _crc_on_disk(target: Target, block: int) -> Callable[[int, int], int]:
    """The CRC of rows that a target holds, read in blocks; none where they can't be read."""

    def check(start: int, stop: int) -> int:
        crc = 0
        try:
            for first in range(start, stop, block):
                crc = crc_of(target.read(first, min(first + block, stop)), crc)
        except (OSError, ValueError, RuntimeError, CannotRun):
            return -1
        return crc

    return check
