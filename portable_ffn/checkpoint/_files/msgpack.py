"""Flax's msgpack: nested dictionaries of arrays, each an extension of its shape, its dtype and its bytes.

Source: flax/serialization.py (to_bytes, _msgpack_ext_pack: type 1 is an array, 3 a scalar; arrays beyond 2**30 bytes
are written in chunks). The file is read whole: msgpack has no way to skip.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.container import Container, named, needs
from portable_ffn.checkpoint._files.dtypes import BITS, numpy_dtype
from portable_ffn.checkpoint._files.mapped import open_regular
from portable_ffn.checkpoint._files.scanned import unstacked
from portable_ffn.checkpoint._files.tensor import TensorInfo

_CHUNKED: Final = "__msgpack_chunked_array__"
Array = np.ndarray[Any, Any]


class MsgpackFile:
    """The arrays of one file, in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._arrays: dict[str, Array] | None = None

    def __reduce__(self) -> tuple[type["MsgpackFile"], tuple[Path]]:
        """Without the arrays."""
        return type(self), (self.path,)

    def arrays(self) -> dict[str, Array]:
        """The arrays by their paths."""
        if self._arrays is None:
            self._arrays = dict(_flat(_unpack(self.path), ""))
        return self._arrays

    def array(self, info: TensorInfo) -> Array:
        """The array, a view of what was read."""
        return self.arrays()[info.name]

    def part(self, name: str, index: tuple[Any, ...]) -> Array:
        """A part of an array, a view too."""
        return np.asarray(self.arrays()[name][index])


def read_msgpack(path: Path) -> Container:
    """The arrays of a file."""
    source = MsgpackFile(path)
    infos = [
        TensorInfo(name, array.dtype.name, array.shape, path, 0, array.nbytes)
        for name, array in source.arrays().items()
    ]
    if not infos:
        raise CheckpointError(f"{path}: must hold arrays under names, and holds none")
    size = os.path.getsize(path)
    notes = (f"file: msgpack is read whole, {size} bytes of memory",)
    return unstacked(Container(named(path, infos), source, {}, notes), source.part)


def _unpack(path: Path) -> Any:
    """What the file holds."""
    try:
        import msgpack
    except ImportError as error:
        raise needs(path, "msgpack", "msgpack", "a Flax msgpack file") from error
    with open_regular(path) as file:
        data = file.read()
    try:
        found = msgpack.unpackb(data, ext_hook=_extension, raw=False, strict_map_key=False)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from None
    except (
        ValueError,
        TypeError,
        RecursionError,
        MemoryError,
        OverflowError,
        msgpack.exceptions.UnpackException,
    ) as error:
        raise CheckpointError(f"{path}: must be Flax msgpack, and is damaged: {str(error)[:200]}") from None
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: must hold a dictionary of arrays, holds a {type(found).__name__}")
    return found


def _extension(code: int, data: bytes) -> Any:
    """An array or a scalar of flax; None for anything else."""
    import msgpack

    if code not in (1, 3):
        return None
    shape, name, raw = msgpack.unpackb(data, raw=False)
    if name not in BITS or not isinstance(raw, bytes) or not all(type(n) is int and n >= 0 for n in shape):
        raise CheckpointError(f"an array of {str(name)[:40]!r} and shape {str(shape)[:60]} is none that is known")
    dtype = numpy_dtype(name)
    if math.prod(shape) * dtype.itemsize != len(raw):
        raise CheckpointError(f"an array of {name} and shape {str(shape)[:60]} doesn't fit its {len(raw)} bytes")
    return np.frombuffer(raw, dtype).reshape(shape)


def _flat(found: dict[Any, Any], prefix: str, depth: int = 0) -> Iterator[tuple[str, Array]]:
    """Every array with its path."""
    for key, value in found.items():
        name = f"{prefix}/{key}" if prefix else str(key)
        if isinstance(value, dict) and value.get(_CHUNKED) is True:
            yield name, _joined(value)
        elif isinstance(value, dict) and depth < 60:
            yield from _flat(value, name, depth + 1)
        elif isinstance(value, np.ndarray):
            yield name, value


def _joined(found: dict[Any, Any]) -> Array:
    """An array that was written in chunks."""
    shape, chunks = found.get("shape"), found.get("chunks")
    try:
        numbers = [shape[str(n)] for n in range(len(shape))]  # type: ignore[index,arg-type]
        parts = [chunks[str(n)] for n in range(len(chunks))]  # type: ignore[index,arg-type]
        return np.concatenate([part.reshape(-1) for part in parts]).reshape(numbers)
    except (TypeError, KeyError, ValueError, AttributeError):
        raise CheckpointError("an array in chunks has lost some of them, or its shape") from None
