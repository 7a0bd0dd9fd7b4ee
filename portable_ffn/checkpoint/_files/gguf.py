"""The header of a GGUF file, read strictly; the types of its tensors are those of the package `gguf`.

The format is described in docs/gguf.md of github.com/ggml-org/ggml. The package's own GGUFReader is not used:
a wrong length makes it loop without end, and it decodes every token of a vocabulary.
"""

import math
import struct
from pathlib import Path
from typing import Any, Final, NamedTuple

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.mapped import Mapped
from portable_ffn.checkpoint._files.tensor import TensorInfo

# The types of metadata values, by their number: what struct calls them. 8 is a string, 9 an array.
_SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_LONGEST_ARRAY: Final = 4096  # values; widths and switches of layers are kept, vocabularies are not
# What no model needs is refused, or passed over, before it takes memory and time.
_PAIRS: Final = 20_000
_TENSORS: Final = 200_000
_TEXTS: Final = 5_000_000  # in arrays: vocabularies and merges, passed over one by one
_KEPT_NUMBERS: Final = 1_000_000
_KEPT_BYTES: Final = 32_000_000  # of names and texts
_PLAIN: Final = {
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F64": "float64",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
}


# Types that ggml has, had, or is to have, by their number: those that the installed package may not know.
_TYPES: Final = {
    4: "Q4_2",
    5: "Q4_3",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    34: "TQ1_0",
    35: "TQ2_0",
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
    39: "MXFP4",
    40: "NVFP4",
    41: "Q1_0",
    42: "Q2_0",
}


class GgufHeader(NamedTuple):
    """What a GGUF file says of itself: its tensors as they are, the shapes of their values, their types by name.

    `kinds` has the types of those tensors that are made of blocks.
    """

    tensors: dict[str, TensorInfo]
    logical: dict[str, TensorInfo]
    kinds: dict[str, str]
    metadata: dict[str, Any]


def read_gguf(path: Path, file: Mapped) -> GgufHeader:
    """The header, checked against the file's size."""
    try:
        import gguf
    except ImportError as error:
        raise CheckpointError(f"{path}: reading GGUF needs the package gguf; pip install portable-ffn[gguf]") from error
    if file.size < 24:
        raise CheckpointError(f"{path}: has {file.size} bytes; a GGUF file has 24 at least")
    walk = _Walk(path, file)
    magic, version, tensor_count, pair_count = walk.take("4sIQQ")
    if magic != b"GGUF":
        raise CheckpointError(f"{path}: is no GGUF file")
    if version not in (2, 3):
        raise CheckpointError(f"{path}: is GGUF of version {version}, or big-endian; little-endian 2 and 3 are read")
    metadata: dict[str, Any] = {}
    for _ in range(walk.count(pair_count, 13, _PAIRS)):
        key = walk.text()
        if key in metadata:
            raise CheckpointError(f"{path}: the key {key[:200]!r} stands twice; it must stand once")
        metadata[key] = walk.value()
    header = GgufHeader({}, {}, {}, {key: value for key, value in metadata.items() if value is not None})
    entries = [(walk.text(), walk.axes(), *walk.take("IQ")) for _ in range(walk.count(tensor_count, 24, _TENSORS))]
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 0 < alignment < 2**31 or alignment % 8:
        raise CheckpointError(f"{path}: general.alignment must be a multiple of 8, got {str(alignment)[:40]}")
    base = -(-walk.at // alignment) * alignment
    end = base
    entries.sort(key=lambda entry: entry[3])
    for place, (name, shape, number, offset) in enumerate(entries):
        where = f"{path}: tensor {name[:200]!r}"
        if name in header.tensors:
            raise CheckpointError(f"{where} stands twice; it must stand once")
        if math.prod(n for n in shape if n) >= 2**60:
            raise CheckpointError(f"{where}: shape {shape} is none that can be")
        try:
            kind = gguf.GGMLQuantizationType(number)
        except ValueError:
            if number not in _TYPES:
                raise CheckpointError(f"{where} has the unknown type {number}") from None
            # The bytes up to the next tensor; how many of them are its own is not known.
            after = entries[place + 1][3] if place + 1 < len(entries) else file.size - base
            label, width, nbytes = _TYPES[number], after - offset, after - offset
            row: tuple[int, ...] = (nbytes,)
        else:
            per_block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
            label, width = kind.name, shape[-1] if shape else 1
            if width % per_block:
                raise CheckpointError(f"{where}: shape {shape} doesn't fit {label}")
            nbytes = math.prod(shape) // per_block * block_bytes
            row = (*shape[:-1], width // per_block * block_bytes)
        if base + offset < end or base + offset + nbytes > file.size or offset % alignment or nbytes < 0:
            raise CheckpointError(
                f"{where}: {nbytes} bytes at {base + offset} overlap with others, or the file is cut off"
            )
        end = base + offset + nbytes
        info = TensorInfo(name, _PLAIN.get(label, "uint8"), shape, path, base + offset, nbytes)
        header.logical[name] = info
        if label not in _PLAIN:
            info = info._replace(shape=row)
            header.kinds[name] = label
        header.tensors[name] = info
    return header


class _Walk:
    """A place in the file that only moves on, and never past the end."""

    def __init__(self, path: Path, file: Mapped) -> None:
        self.path = path
        self.memory = file.memory()
        self.size = file.size
        self.at = 0
        self.numbers = 0
        self.bytes = 0
        self.texts = 0

    def take(self, layout: str) -> tuple[Any, ...]:
        """The next values, little-endian, by struct's letters."""
        place = self.skip(struct.calcsize("<" + layout))
        return struct.unpack_from("<" + layout, self.memory, place)

    def skip(self, nbytes: int) -> int:
        """Move on over so many bytes; the place before them."""
        if nbytes > self.size - self.at:
            raise CheckpointError(f"{self.path}: the header goes past the file's end; it is cut off or damaged")
        self.at += nbytes
        return self.at - nbytes

    def count(self, number: int, least: int, most: int) -> int:
        """A number of things of `least` bytes each, if the file can hold them and a model can need them."""
        if number * least > self.size - self.at:
            raise CheckpointError(f"{self.path}: the header counts {number} entries, more than the file can hold")
        if number > most:
            raise CheckpointError(f"{self.path}: the header counts {number} entries; {most} are the limit")
        return number

    def keep(self, nbytes: int) -> None:
        """Count the bytes of a text that is kept; CheckpointError where they are too many."""
        self.bytes += nbytes
        if self.bytes > _KEPT_BYTES:
            raise CheckpointError(f"{self.path}: names and texts of more than {_KEPT_BYTES} bytes, which is the limit")

    def text(self) -> str:
        """The next string, a name."""
        (length,) = self.take("Q")
        place = self.skip(length)
        if length > 2**16:
            raise CheckpointError(f"{self.path}: a name of {length} bytes; 65536 are the limit")
        self.keep(length)
        try:
            return self.memory[place : place + length].decode("utf-8")
        except UnicodeDecodeError:
            raise CheckpointError(f"{self.path}: a name is not UTF-8") from None

    def axes(self) -> tuple[int, ...]:
        """A shape, which GGUF stores from the last axis to the first."""
        (count,) = self.take("I")
        if count > 4:
            raise CheckpointError(f"{self.path}: a tensor of {count} axes; GGML has 4")
        return tuple(self.take(f"{count}Q"))[::-1]

    def value(self) -> Any:
        """The next value of the metadata; None for a long array or one of strings."""
        (kind,) = self.take("I")
        if kind == _STRING:
            (length,) = self.take("Q")
            place = self.skip(length)
            if length > 2**20:
                return None
            self.keep(length)
            return self.memory[place : place + length].decode("utf-8", "replace")
        if kind in _SCALARS:
            return self.take(_SCALARS[kind])[0]
        if kind != _ARRAY:
            raise CheckpointError(f"{self.path}: a value has the unknown type {kind}")
        inner, length = self.take("IQ")
        if inner == _STRING:
            self.texts += length
            for _ in range(self.count(length, 8, _TEXTS - self.texts + length)):
                self.skip(self.take("Q")[0])
            return None
        if inner not in _SCALARS:
            raise CheckpointError(f"{self.path}: an array has values of the unknown type {inner}")
        if length <= _LONGEST_ARRAY and self.numbers + length <= _KEPT_NUMBERS:
            self.numbers += length
            return list(self.take(f"{length}{_SCALARS[inner]}"))
        self.skip(length * struct.calcsize(_SCALARS[inner]))
        return None
