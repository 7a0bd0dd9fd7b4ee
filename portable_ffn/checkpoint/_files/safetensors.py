"""The header of one safetensors file, read strictly.

The format is described under "Format" in the README of github.com/huggingface/safetensors. That library's own
reader is not used: it takes a key that stands twice, which the format forbids; it gives NumPy no bfloat16 or
float8; and its errors name neither the file nor the tensor.
"""

import math
import os
from pathlib import Path
from typing import Any, Final, NamedTuple

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.dtypes import DTYPES
from portable_ffn.checkpoint._files.foreign import refuse_magic
from portable_ffn.checkpoint._files.json import parse_object
from portable_ffn.checkpoint._files.mapped import JSON_LIMIT, Identity, identity, open_regular, reading
from portable_ffn.checkpoint._files.tensor import TensorInfo

_AXES: Final = 32  # as many as NumPy 1 holds


class Header(NamedTuple):
    """What one file says of itself, and what tells it from another."""

    tensors: dict[str, TensorInfo]
    metadata: dict[str, str]
    known: Identity


def read_header(path: Path) -> Header:
    """The header, checked against the file's size; no byte of a tensor is read."""
    with open_regular(path) as file:
        known = identity(os.fstat(file.fileno()))
        size = known.size
        with reading(path):
            start = file.read(16)
        refuse_magic(path, start)
        if size < 10 or len(start) < 10:
            raise CheckpointError(f"{path}: has {size} bytes; a safetensors file has 10 at least")
        length = int.from_bytes(start[:8], "little")
        if length > JSON_LIMIT:
            raise CheckpointError(
                f"{path}: its first 8 bytes give the header {length} bytes; {JSON_LIMIT} are the limit, so this is no "
                "safetensors file, or a damaged one"
            )
        if length > size - 8:
            raise CheckpointError(
                f"{path}: the header has {length} bytes, the file {size}; the file is cut off, or no safetensors file"
            )
        if start[8:9] != b"{":
            raise CheckpointError(f"{path}: the header must begin with a brace; this is no safetensors file")
        with reading(path):
            file.seek(8)
            header = parse_object(file.read(length), f"{path}: the header")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise CheckpointError(f"{path}: __metadata__ must map strings to strings")
    tensors = {name: _tensor(name, entry, path, 8 + length) for name, entry in header.items()}
    _check_cover(tensors, path, 8 + length, size)
    return Header(tensors, metadata, known)


def _tensor(name: str, entry: Any, path: Path, base: int) -> TensorInfo:
    """One entry of the header, checked against itself; `base` is where the data begins."""
    where = f"{path}: tensor {name[:200]!r}"
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise CheckpointError(f"{where} must have dtype, shape and data_offsets, and nothing else")
    disk, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(disk, str) or disk not in DTYPES:
        raise CheckpointError(f"{where} has the unknown dtype {_short(disk)}; known are {', '.join(DTYPES)}")
    if not _naturals(shape, _AXES):
        raise CheckpointError(f"{where}: shape must be a list of at most {_AXES} whole numbers, got {_short(shape)}")
    if not _naturals(offsets, 2) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise CheckpointError(f"{where}: data_offsets must be [begin, end], got {_short(offsets)}")
    dtype, bits = DTYPES[disk]
    begin, end = offsets
    # The second test is for an empty tensor, whose other axes NumPy multiplies all the same.
    if math.prod(shape) * bits != (end - begin) * 8 or math.prod(n for n in shape if n) * bits >= 2**63:
        raise CheckpointError(f"{where}: {disk} of shape {_short(shape)} doesn't fit its {end - begin} bytes")
    return TensorInfo(name, dtype, tuple(shape), path, base + begin, end - begin)


def _naturals(found: Any, most: int) -> bool:
    """Whether it is a list of at most so many integers from 0 to 2**63 - 1; True and 1.0 are none."""
    return isinstance(found, list) and len(found) <= most and all(type(n) is int and 0 <= n < 2**63 for n in found)


def _short(found: Any) -> str:
    """What was found instead, for a message."""
    return repr(found[:100] if isinstance(found, (list, str)) else found)[:80]


def _check_cover(tensors: dict[str, TensorInfo], path: Path, base: int, size: int) -> None:
    """The tensors must fill the data one after another, as the format demands: no hole, overlap or rest."""
    end, last = base, "the header"
    for info in sorted(tensors.values(), key=lambda info: (info.offset, info.nbytes)):
        if info.offset != end:
            fault = "there is a hole between them" if info.offset > end else "they overlap"
            raise CheckpointError(
                f"{path}: tensor {info.name[:200]!r} begins at byte {info.offset}, {last} ends at byte {end}; {fault}"
            )
        end, last = end + info.nbytes, f"tensor {info.name[:200]!r}"
    if end != size:
        fault = "it is cut off" if size < end else "the rest belongs to no tensor"
        raise CheckpointError(f"{path}: the tensors end at byte {end}, the file at byte {size}; {fault}")
