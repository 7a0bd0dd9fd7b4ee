"""A long batch cut into blocks of rows, so that the hidden layer of one block is all that lies in memory at a time."""

from collections.abc import Iterator

# What the hidden layers of one block may take together. Half as many rows cost a tenth and more of the products'
# speed where d_ff is small, twice as many gain nothing (ci/BENCH.md).
HIDDEN_BYTES = 32 * 2**20
# Products of fewer rows than the first stream the weights through the cache too often; more than the second push
# the hidden layer itself out of it.
FEWEST, MOST = 256, 2048


def block_rows(rows: int, row_bytes: int, hidden_bytes: int = HIDDEN_BYTES, most: int = MOST) -> int:
    """How many rows a block takes, all but the last; the hidden layer of one row takes `row_bytes`."""
    most = min(most, max(FEWEST, hidden_bytes // max(row_bytes, 1)))
    count = -(-rows // most)
    return -(-rows // count) if count else 0


def blocks(rows: int, size: int) -> Iterator[tuple[int, int]]:
    """The first row and the one after the last of each block."""
    for start in range(0, rows, size):
        yield start, min(start + size, rows)
