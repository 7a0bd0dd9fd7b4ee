"""One tensor as a file has it, and as it is meant."""

from pathlib import Path
from typing import Any, NamedTuple


class TensorInfo(NamedTuple):
    """One tensor of a file: its dtype's common name, its shape, and where its bytes are.

    `linear` says of a decoded matrix that its format holds the weights of linear layers alone, so that it is (out, in)
    whatever its model's family does elsewhere.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path
    offset: int
    nbytes: int
    linear: bool = False


class Encoding(NamedTuple):
    """How a logical tensor comes from those on disk: the values first, then the scales.

    `format` is told to people ("GPTQ 4-bit, groups of 128"), `decoder` is the key of the row that decodes it with the
    numbers `how`. A format that is only known by name has no decoder; `fault` says what contradicts the format.
    """

    format: str
    sources: tuple[str, ...]
    decoder: str = ""
    how: Any = None
    fault: str = ""
