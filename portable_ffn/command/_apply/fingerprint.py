"""What a loaded network is, in two digests: of its arrays, and of all else that decides what it computes.

Every field of the network is gone through, whatever it holds, so that a field that is new decides as well.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from portable_ffn.command._apply.own_files import version

# Bytes that are copied at once of an array that doesn't lie in one piece.
_PIECE = 2**20


class Fingerprint(NamedTuple):
    """Digests in hexadecimal."""

    arrays: str
    rest: str


def fingerprint(network: Any) -> Fingerprint:
    """The digests of a network on NumPy."""
    arrays = hashlib.blake2b(digest_size=16)
    told = json.dumps(_described(network, arrays))
    return Fingerprint(arrays.hexdigest(), hashlib.blake2b(told.encode(), digest_size=16).hexdigest())


def versions(files: list[Path]) -> list[list[int]]:
    """What tells the files from themselves after a change."""
    return [version(file.stat()) for file in files]


def arrays_of(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """The arrays that a network holds, wherever it has them."""
    found: list[np.ndarray[Any, Any]] = []
    _described(value, found)
    return iter(found)


def _described(value: Any, arrays: Any) -> Any:
    """A value as JSON says it; the numbers of its arrays go to a digest, or the arrays to a list."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, np.ndarray | np.generic):
        return _array(np.asarray(value), arrays)
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if is_dataclass(value) and not isinstance(value, type):
        return [name, *([field.name, _described(getattr(value, field.name), arrays)] for field in fields(value))]
    if isinstance(value, Mapping):
        return [name, *([_described(key, arrays), _described(value[key], arrays)] for key in value)]
    if isinstance(value, list | tuple):
        return [name, *(_described(one, arrays) for one in value)]
    if isinstance(value, type) or hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    reduced = value.__reduce_ex__(4)  # as pickle takes it: a name, or what makes it and from what
    return reduced if isinstance(reduced, str) else [name, *(_described(one, arrays) for one in reduced[1:3])]


def _array(array: np.ndarray[Any, Any], arrays: Any) -> Any:
    """The kind and shape of an array, and the order that it has in memory, which may decide the order of sums."""
    turned = array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous
    if isinstance(arrays, list):
        arrays.append(array)
    elif array.size:
        lying = array.T if turned else array
        step = max(1, _PIECE // max(1, lying[:1].nbytes)) if lying.ndim else 1
        pieces = [lying] if not lying.ndim else (lying[i : i + step] for i in range(0, len(lying), step))
        for piece in pieces:
            arrays.update(np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data)
    return [array.dtype.str, str(array.dtype), list(array.shape), turned]
