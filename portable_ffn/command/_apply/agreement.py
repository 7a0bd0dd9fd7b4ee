"""Whether rows that are finished agree with what the journal says of them, and with the input as it is now."""

from collections.abc import Callable
from typing import Any

from portable_ffn.command import CannotRun
from portable_ffn.command._apply.ends import Source, Target
from portable_ffn.command._apply.journal import Crcs, Journal, crc_of, crc_of_input


def must_be_of_this_input(source: Source, journal: Journal, block: int) -> None:
    """CannotRun where what stands under the input's name is not what the rows were made of."""
    now = source.again()
    if now is None:
        return
    try:
        same = source.same_layout(now)
        rows = journal.agreed(lambda *stretch: same and _crc(now.read, crc_of_input, stretch, block) == stretch[2].read)
    finally:
        now.close()
    if rows < source.rows:
        raise CannotRun(
            f"{source.path}: has changed while it was read, so nothing is written under the output's name; run again"
        )


def agreement(source: Source, target: Target, block: int) -> Callable[[int, int, Crcs], bool]:
    """Whether rows of the target are those that were made, of these rows of the source; not where one is unreadable."""

    def check(start: int, stop: int, crcs: Crcs) -> bool:
        if stop > target.rows:
            return False
        stretch = start, stop, crcs
        try:
            return (
                _crc(target.read, crc_of, stretch, block) == crcs.made
                and _crc(source.read, crc_of_input, stretch, block) == crcs.read
            )
        except Exception:  # of a codec's, which have no base class: what can't be read is made again
            return False

    return check


def _crc(
    read: Callable[[int, int], Any],
    crc_of_block: Callable[[Any, int], int],
    stretch: tuple[int, int, Crcs],
    block: int,
) -> int:
    """The CRC of rows, read in blocks."""
    crc = 0
    for first in range(stretch[0], stretch[1], block):
        crc = crc_of_block(read(first, min(first + block, stretch[1])), crc)
    return crc
