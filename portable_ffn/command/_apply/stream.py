"""Block by block from a source of rows to an unfinished target, which takes its name when it is finished.

A killed run leaves TARGET.partial and TARGET.journal; the next run of the same work goes on with them, in the same
blocks, so that it ends with the same bytes. A run of other work begins anew.
"""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from portable_ffn.command import CannotRun
from portable_ffn.command._apply.agreement import agreement, must_be_of_this_input
from portable_ffn.command._apply.ends import Source, Target
from portable_ffn.command._apply.journal import Crcs, Journal, crc_of, crc_of_input
from portable_ffn.command._progress import shown
from portable_ffn.command._words import one_line

_log = logging.getLogger(__name__)

SAFE_EVERY = 0.25
"""Seconds of work that a killed run may lose, where the disk is fast enough."""
SAFE_SHARE = 10
"""How many times as long as the disk took to make rows safe the next ones wait for it."""


class Work(NamedTuple):
    """What is to be done: `key` says what decides its result, `choose` how many rows a block has, where it is new."""

    source: Source
    compute: Callable[[Any], Any]
    key: dict[str, Any]
    choose: Callable[[], int]
    most: int
    """The most rows that a block may have."""
    must_be_unchanged: Callable[[], None]
    """CannotRun where the weights are others than at the beginning."""


class Run(NamedTuple):
    """What a run did: the rows in a block, and how many rows an earlier run had finished."""

    block: int
    resumed: int


def run(work: Work, target: Target) -> Run:
    """Fill the target, and publish it."""
    try:
        journal = Journal(target.path.with_name(target.path.name + ".journal"))
        try:
            return _run(work, target, journal)
        finally:
            target.close()
            journal.close()
    except OSError as error:
        raise CannotRun(f"{target.path}: can't be written: {one_line(error)}") from None


def _run(work: Work, target: Target, journal: Journal) -> Run:
    """As `run`, with the journal in hand."""
    head, published = journal.head, journal.publishing
    same = head is not None and head.key == work.key and head.block <= work.most
    if head is not None and same and target.finished(published):
        done = journal.agreed(agreement(work.source, target, head.block))
        if done == target.rows:
            journal.remove()
            return Run(head.block, done)
    try:
        target.must_be_free()
        resumes = same and target.reopen(published)
    except CannotRun:
        if journal.empty:
            journal.remove()
        raise
    if head is not None and resumes:
        block, done = head.block, journal.agreed(agreement(work.source, target, head.block))
        target.claim(published)
        journal.keep(done)
    else:
        _tell_of_other_work(target.path, journal, work.key)
        block, done = _begin(work, target, journal), 0
    _log.info("%s: blocks of %d rows, from row %d of %d on", target.path.name, block, done, target.rows)
    with shown(last=True) as show:
        _fill(work, target, journal, done, block, lambda done: show(_told(target, done), done, target.rows))
    must_be_of_this_input(work.source, journal, block)
    work.must_be_unchanged()
    target.sync()
    journal.publish(target.identity())
    target.publish()
    journal.remove()
    return Run(block, done)


def _told(target: Target, done: int) -> str:
    """How far it is, in words."""
    percent = 100 * done // target.rows if target.rows else 100
    return f"{target.path.name}: {done} of {target.rows} rows ({percent}%)"


def _tell_of_other_work(path: Path, journal: Journal, key: dict[str, Any]) -> None:
    """Say what has changed where an unfinished run is there and can't be gone on with."""
    if journal.head is not None:
        changed = [name for name in key if journal.head.key.get(name) != key[name]] or ["the unfinished file"]
    elif not journal.empty:
        changed = ["the journal, which is damaged"]
    else:
        return
    told = f"an earlier run was not finished; begun anew, since this has changed: {', '.join(changed)}"
    print(f"{path.name}: {told}", file=sys.stderr)


def _begin(work: Work, target: Target, journal: Journal) -> int:
    """A new target and its journal; neither stays where the target can't be made."""
    empty = journal.empty
    try:
        block = work.choose()
        target.claim(journal.publishing)
        empty = True
        journal.forget()
        target.create(block)
        journal.begin(work.key, block)
    except (OSError, CannotRun):
        if empty:
            journal.remove()
        raise
    return block


def _fill(work: Work, target: Target, journal: Journal, done: int, block: int, told: Callable[[int], None]) -> None:
    """Compute the rows from `done` on in blocks, and tell the journal of what is safe."""
    crcs, since, pause = Crcs(0, 0), monotonic(), SAFE_EVERY
    told(done)
    for start in range(done, target.rows, block):
        stop = min(start + block, target.rows)
        x = work.source.read(start, stop)
        read = crc_of_input(x, crcs.read)
        y = work.compute(x)
        del x
        target.write(start, y)
        crcs = Crcs(crc_of(y, crcs.made), read)
        began = monotonic()
        if stop == target.rows or began - since >= pause:
            work.must_be_unchanged()
            target.sync()
            journal.record(stop, crcs)
            crcs, since = Crcs(0, 0), monotonic()
            pause = max(SAFE_EVERY, SAFE_SHARE * (since - began))
        told(stop)
