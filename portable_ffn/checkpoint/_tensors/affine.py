"""From codes to values: (code - zero) * scale, a scale and a zero for each group of inputs."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = np.ndarray[Any, Any]

# Values that are worked on at a time: codes, products and scales of so many stay in a core's own memory.
_BLOCK = 1 << 16


def row_blocks(rows: int, width: int) -> Iterator[slice]:
    """Slices of rows of this width, each small enough for a core's own memory."""
    step = max(1, _BLOCK // max(1, width))
    return (slice(start, start + step) for start in range(0, rows, step))


def affine(codes: Array, scales: Array, zeros: Array | None = None, groups: Array | None = None) -> Array:
    """Float32 values of codes (rows, n): scales and zeros (rows, number of groups).

    Groups are of equal size one after another, the last one cut where n is no multiple; or `groups` gives the group of
    each column.
    """
    rows, n = codes.shape
    out = np.empty((rows, n), np.float32)
    count = scales.shape[1]
    size = -(-n // count) if count else n
    even = groups is None and count * size == n
    if groups is None and not even:
        groups = np.arange(n) // size
    for part in row_blocks(rows, n):
        values, scale = out[part], scales[part].astype(np.float32)
        zero = None if zeros is None else zeros[part].astype(np.float32)
        np.copyto(values, codes[part], casting="unsafe")
        if groups is None:
            grouped = values.reshape(-1, count, size)
            if zero is not None:
                grouped -= zero[..., None]
            grouped *= scale[..., None]
        else:
            if zero is not None:
                values -= zero[:, groups]
            values *= scale[:, groups]
    return out


def by_expert(shape: tuple[int, ...]) -> tuple[int, int]:
    """A stack of matrices as one matrix of all their rows."""
    return int(np.prod(shape[:-1], dtype=np.int64)), shape[-1]


def group_of(n: int, count: int) -> int:
    """The size of each of `count` groups of n inputs."""
    return -(-n // count) if count else 0


def flat(array: npt.NDArray[Any]) -> Array:
    """A stack of matrices as one matrix of all their rows."""
    return array.reshape(by_expert(array.shape))
