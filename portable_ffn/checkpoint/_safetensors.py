"""The header of one safetensors file, read strictly.

The format is in the README of github.com/huggingface/safetensors ("Format"). The library's own reader is not used,
for three reasons: it takes what the format forbids (a key that occurs twice), it can't give bfloat16 or float8 to
NumPy, and its errors don't say which file and which tensor.
"""

import math
import os
from pathlib import Path
from typing import Any

from portable_ffn.checkpoint._dtypes import DTYPES
from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files import JSON_LIMIT, TensorInfo, open_regular
from portable_ffn.checkpoint._json import parse_object


def read_header(path: Path) -> tuple[dict[str, TensorInfo], dict[str, str], int]:
    """The tensors, the metadata and the file's size in bytes; no byte of the tensors is read."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(8)
        if size < 10:
            raise CheckpointError(f"{path}: a safetensors file has at least 10 bytes, this one has {size}")
        length = int.from_bytes(start, "little")
        refuse_foreign(path, start + file.read(8))
        if length > JSON_LIMIT:
            raise CheckpointError(f"{path}: the header's length says {length} bytes; the format allows {JSON_LIMIT}")
        if length > size - 8:
            raise CheckpointError(f"{path}: the header's length says {length} bytes, the file has {size}; it is cut off")
        file.seek(8)
        if file.read(1) != b"{":
            raise CheckpointError(f"{path}: the header must begin with {{; this is no safetensors file")
        file.seek(8)
        text = file.read(length)
    header = parse_object(text, f"{path}: the header")
    metadata = _metadata(header.pop("__metadata__", {}), path)
    tensors = {name: _tensor(name, entry, path, 8 + length) for name, entry in header.items()}
    _check_cover(tensors, path, 8 + length, size)
    return tensors, metadata, size


# What files of other formats begin with.
_MAGIC = {
    b"PK\x03\x04": "a zip archive (a PyTorch pickle, most likely)",
    b"\x80": "a Python pickle",
    b"\x89HDF\r\n\x1a\n": "an HDF5 file",
    b"GGUF": "a GGUF file",
    b"version https://": "a Git LFS pointer, not the file itself (git lfs pull fetches it)",
    b"<!DOCTYPE": "an HTML page",
    b"\x93NUMPY": "a NumPy file",
    b"\x1f\x8b": "a gzip archive",
}


def refuse_foreign(path: Path, start: bytes) -> None:
    """Refuse by name what is plainly of another format."""
    for magic, what in _MAGIC.items():
        # A safetensors file whose header has 0x80 bytes begins with 0x80 too, but has a brace after eight bytes.
        if start.startswith(magic) and start[8:9] != b"{":
            raise CheckpointError(f"{path}: is {what}, not a safetensors file; save the model with safetensors")


def _metadata(found: Any, path: Path) -> dict[str, str]:
    """The free texts of a file."""
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise CheckpointError(f"{path}: __metadata__ must map strings to strings")
    return found


def _tensor(name: str, entry: Any, path: Path, base: int) -> TensorInfo:
    """One entry of the header, checked against itself."""
    where = f"{path}: tensor {name[:200]!r}"
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise CheckpointError(f"{where}: must have dtype, shape and data_offsets, and no more")
    disk, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(disk, str) or disk not in DTYPES:
        raise CheckpointError(f"{where}: unknown dtype {str(disk)[:40]!r}; the format knows {', '.join(DTYPES)}")
    if not _naturals(shape) or not _naturals(offsets) or len(offsets) != 2:
        raise CheckpointError(f"{where}: shape and data_offsets must be lists of whole numbers from 0 on, offsets of two")
    if len(shape) > 64:
        raise CheckpointError(f"{where}: {len(shape)} axes; NumPy holds 64")
    dtype, bits = DTYPES[disk]
    # An empty tensor may claim axes whose product NumPy can't hold.
    if math.prod(n for n in shape if n) * bits >= 2**66:
        raise CheckpointError(f"{where}: {disk} of shape {shape} is more than 2**63 bytes")
    begin, end = offsets
    if begin > end:
        raise CheckpointError(f"{where}: ends ({end}) before it begins ({begin})")
    if math.prod(shape) * bits != (end - begin) * 8:
        raise CheckpointError(f"{where}: {disk} of shape {shape} doesn't fill its {end - begin} bytes")
    return TensorInfo(name, dtype, tuple(shape), path, base + begin, end - begin)


def _naturals(found: Any) -> bool:
    """Whether it is a list of integers from 0 to 2**63 - 1; True and 1.0 are none."""
    return isinstance(found, list) and all(type(n) is int and 0 <= n < 2**63 for n in found)


def _check_cover(tensors: dict[str, TensorInfo], path: Path, base: int, size: int) -> None:
    """The tensors must fill the data one after another, as the format demands: no hole, no overlap, no rest."""
    end = base
    last = "the header"
    for info in sorted(tensors.values(), key=lambda info: (info.offset, info.offset + info.nbytes)):
        if info.offset != end:
            fault = "a hole before" if info.offset > end else "overlaps with"
            what = f"{fault} it" if info.offset > end else f"it {fault} {last}"
            raise CheckpointError(f"{path}: tensor {info.name[:200]!r} begins at byte {info.offset - base} of the data, "
                                  f"{end - base} expected: {what}")
        end += info.nbytes
        last = repr(info.name[:200])
    if end != size:
        raise CheckpointError(f"{path}: the header describes {end} bytes, the file has {size}; it is "
                              f"{'cut off' if size < end else 'longer than it says'}")
