"""The temporary memory of one call on NumPy: tiles small enough for the cache, which every step reuses."""

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
