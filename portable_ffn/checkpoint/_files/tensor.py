"""One tensor as a file has it, and as it is meant."""

from pathlib import Path
from typing import NamedTuple


class TensorInfo(NamedTuple):
    """One tensor of a file: its dtype's common name, its shape, and where its bytes are."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path
    offset: int
    nbytes: int


class Encoding(NamedTuple):
    """How a logical tensor comes from those on disk: the values first, then the scales."""

    format: str
    sources: tuple[str, ...]
    blocks: frozenset[tuple[int, int]] = frozenset()
