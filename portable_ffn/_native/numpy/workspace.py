"""Where one call on NumPy works: tiles in the cache that every step reuses, half precision widened, no warnings."""

import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any

import numpy as np

from portable_ffn._arrays.typing import Array


class Work:
    """Tiles of one dtype."""

    __slots__ = ("_full", "_rows", "dtype")

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self._rows: Array = None
        self._full: dict[float, Array] | None = None

    def tiles(self, count: int, size: int) -> Array:
        """`count` tiles of that size, (count, size), with anything in them."""
        if self._rows is None or self._rows.size < count * size:
            self._rows = np.empty(count * size, self.dtype)
        return self._rows[: count * size].reshape(count, size)

    def full(self, value: float, size: int) -> Array:
        """A tile full of one number."""
        if self._full is None:
            self._full = {}
        tile = self._full.get(value)
        if tile is None or tile.size < size:
            tile = self._full[value] = np.full(size, value, self.dtype)
        return tile[:size]


# NumPy keeps in a context variable what it does about overflows. A context of each thread in which it does nothing
# costs a quarter of what np.errstate costs, and no user's code runs in it.
_local = threading.local()


def silently(function: Callable[..., Any], *arguments: Any) -> Any:
    """function(*arguments), in which no floating-point error warns or raises, whatever the user set."""
    quiet = getattr(_local, "quiet", None)
    if quiet is None:
        quiet = _local.quiet = Context()
        quiet.run(np.seterr, all="ignore")
    try:
        return quiet.run(function, *arguments)
    except RuntimeError:
        # Only where a signal handler or the garbage collector runs a network in the midst of this thread's own.
        with np.errstate(all="ignore"):
            return function(*arguments)


def widen(array: Array, computing: Any) -> Array:
    """An array in float32 or float64; bfloat16 by its bits, which are the upper half of a float32."""
    if array.dtype.name == "bfloat16" and computing.itemsize == 4:
        wide = array.view(np.uint16).astype(np.uint32)
        np.left_shift(wide, 16, out=wide)
        return wide.view(np.float32)
    return array.astype(computing, copy=False)
