"""Writing one safetensors file, whole or not at all.

safetensors' own NumPy writer takes the memory of a transposed or sliced view for its values (0.8.0), which
scrambles them silently; here every array is laid out in C order before its bytes are taken.
"""

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from portable_ffn._arrays.kind import not_an_array
from portable_ffn._arrays.library import library_of
from portable_ffn._arrays.typing import Array
from portable_ffn._transfer.move import to_numpy
from portable_ffn.checkpoint._files.dtypes import BITS, DISK_NAMES, numpy_dtype
from portable_ffn.checkpoint._files.mapped import JSON_LIMIT
from portable_ffn.checkpoint._files.sync import sync_directory


def save_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, Array], metadata: Mapping[str, str] | None = None
) -> None:
    """Write arrays of any library, in their own dtypes, under their names; a file that is there is replaced.

    The file appears under its name when it is complete and on the disk; a failure leaves what was there.

    Parameters
    ----------
    path : str or os.PathLike
        Must end in .safetensors. ~ is expanded.
    tensors : mapping of str to array
        Views of any strides; None is no array.
    metadata : mapping of str to str, optional
        Free texts, kept in the header.

    Raises
    ------
    TypeError
        What is no array, a dtype that the format lacks, or metadata other than strings.
    ValueError
        A name that the format or its readers can't hold.
    OSError
        The file can't be written.
    """
    path = Path(os.fspath(path)).expanduser()
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"{path.parent} must be a directory to hold {path.name}, and there is none; make it first"
        )
    if path.suffix != ".safetensors" or path.name.startswith("adapter_model"):
        raise ValueError(f"path must end in .safetensors and name no adapter, got {path.name!r}; rename it")
    arrays = {_checked_name(name): _to_disk(name, tensors[name]) for name in tensors}
    # Wide dtypes first, as the other writers do: so that every tensor is aligned to its dtype.
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header = _header({name: arrays[name] for name in order}, metadata)
    _write(path, header, [arrays[name] for name in order])


def _checked_name(name: Any) -> str:
    """A tensor's name, if it can stand in a header."""
    if not isinstance(name, str):
        raise TypeError(f"the names of tensors must be strings, got {type(name).__name__}")
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"the names of tensors must be UTF-8, got {name!r}") from None
    if name == "__metadata__":
        raise ValueError("no tensor may be named '__metadata__', which the format keeps for itself; rename it")
    return name


def _to_disk(name: str, value: Array) -> np.ndarray[Any, Any]:
    """The array in NumPy, little-endian; its strides are left for `_write`."""
    if library_of(value) is None:
        raise not_an_array(name, value)
    array = np.asarray(to_numpy(value))
    if array.dtype.name not in DISK_NAMES or BITS[array.dtype.name] < 8:
        raise TypeError(f"{name} must be of a dtype that safetensors holds, got {array.dtype.name}; cast it first")
    return array.astype(numpy_dtype(array.dtype.name), copy=False)


def _header(arrays: Mapping[str, np.ndarray[Any, Any]], metadata: Mapping[str, str] | None) -> bytes:
    """The length and the JSON text, padded so that the data is aligned."""
    entries: dict[str, Any] = {}
    if metadata is not None:
        if not all(isinstance(text, str) for pair in metadata.items() for text in pair):
            raise TypeError("metadata must map strings to strings; use json.dumps for other values")
        entries["__metadata__"] = dict(metadata)
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        dtype = DISK_NAMES[array.dtype.name]
        entries[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    if len(text) > JSON_LIMIT:
        raise ValueError(f"names and metadata must fit into {JSON_LIMIT} bytes, got {len(text)}; save fewer at once")
    return len(text).to_bytes(8, "little") + text


def _write(path: Path, header: bytes, arrays: list[np.ndarray[Any, Any]]) -> None:
    """Write beside the target, and put it in its place in one step."""
    # Not through tempfile, whose files nobody else may read.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with draft.open("xb") as file:
            file.write(header)
            for array in arrays:
                file.write(np.asarray(array, order="C").reshape(-1).view(np.uint8).data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            # The draft's name means nothing to the caller.
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    # The new name is on the disk only with its directory.
    sync_directory(path.parent)
