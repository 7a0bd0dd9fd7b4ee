"""A checkpoint as one thing, whatever its files: which tensors it has, and their values."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from portable_ffn._arrays.dtype import REAL_FLOATING
from portable_ffn._arrays.kind import kind_of
from portable_ffn.checkpoint._errors import CheckpointError, guarded
from portable_ffn.checkpoint._files.dtypes import numpy_dtype
from portable_ffn.checkpoint._files.tensor import TensorInfo
from portable_ffn.checkpoint._tensors.contents import Contents, contents_of
from portable_ffn.checkpoint._tensors.dequantise import dequantise, refusal


class Store:
    """The tensors of a checkpoint by name. Only headers are read until an array is asked for.

    Attributes
    ----------
    path : pathlib.Path
        What was opened, ~ expanded.
    config : dict
        config.json; of a GGUF file, its metadata, long arrays and strings left out; else {}.
    notes : tuple of str
        What a user should know of how the files are read: which are left aside, which take the memory of all of them.
    metadata : dict of str to str
        The free texts of a checkpoint of one file, else {}.
    tensors : mapping of str to TensorInfo
        The tensors on disk.
    logical : mapping of str to TensorInfo
        The same, with every name of a tensor that is tied to another, and with a quantised weight and its scales as
        one tensor: dtype "float32" and the shape of the values where it can be read, else the format's name for a
        dtype and the shape as far as it is known. `file`, `offset` and `nbytes` are those of the values on disk.
    formats : mapping of str to str
        Logical name -> format, for the quantised ones: "FP8", "MXFP4", "GPTQ", "GGUF Q8_0" and so on.
    """

    def __init__(self, path: Path, contents: Contents) -> None:
        self.path = path
        self.config = contents.config
        self.metadata = contents.metadata
        self._tensors = contents.tensors
        self._logical = contents.logical
        self._encodings = contents.encodings
        self._aliases = contents.aliases
        self._files = contents.files
        self.notes = contents.notes

    @property
    def config_beside(self) -> Path | None:
        """The config.json that lies beside a file read alone, and so isn't looked at; None where there is none."""
        beside = self.path.with_name("config.json")
        return beside if not self.config and self.path.is_file() and beside.is_file() else None

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """The tensors on disk, by name."""
        return MappingProxyType(self._tensors)

    @property
    def logical(self) -> Mapping[str, TensorInfo]:
        """The tensors as they are meant, by name."""
        return MappingProxyType(self._logical)

    @property
    def formats(self) -> Mapping[str, str]:
        """The formats of the quantised logical tensors, by name."""
        return {name: encoding.format for name, encoding in self._encodings.items()}

    def read(self, name: str) -> np.ndarray[Any, Any]:
        """The tensor as it is on disk: a read-only view of the mapped file, which is read as it is touched.

        Raises
        ------
        KeyError
            There is no such tensor.
        CheckpointError
            The file has changed since, or NumPy can't hold the dtype.
        """
        info = self._tensors[name]
        return self._files[info.file].array(info)

    def read_logical(self, name: str, row: int | None = None) -> np.ndarray[Any, Any]:
        """The values: dequantised to float32 where they are quantised, else as `read`.

        Parameters
        ----------
        name : str
            One of `logical`.
        row : int, optional
            Read this row of the first axis only, as one expert of a stack of three axes.

        Raises
        ------
        KeyError
            There is no such tensor.
        CheckpointError
            The format is not read; the message names it.
        """
        shape = self._logical[name].shape
        name = self._aliases.get(name, name)
        encoding = self._encodings.get(name)
        if encoding is None:
            array = self.read(name)
            return array if row is None else np.asarray(array[row])
        if 0 in shape and not refusal(name, encoding):
            return np.zeros(shape if row is None else shape[1:], np.float32)
        arrays = [self.read(source) for source in encoding.sources]
        if row is None:
            return dequantise(name, encoding, arrays)
        experts = arrays[0].shape[0]
        if len(shape) != 3:
            return np.asarray(dequantise(name, encoding, arrays)[row])
        row = range(experts)[row]
        one = [a[row : row + 1] if a.ndim and len(a) == experts else a for a in arrays]
        return np.asarray(dequantise(name, encoding, one)[0])

    def check_readable(self, name: str) -> None:
        """CheckpointError where the header says that `read_logical` would find no real floating numbers."""
        encoding, dtype = self._encodings.get(self._aliases.get(name, name)), self._logical[name].dtype
        if encoding is not None:
            if told := refusal(name, encoding):
                raise CheckpointError(told)
        elif dtype not in REAL_FLOATING:
            raise CheckpointError(
                f"{name!r} must hold {', '.join(REAL_FLOATING)} to be read as a weight, and is {dtype}; "
                "save the model in one of those"
            )

    def check_formats(self, names: Sequence[str]) -> None:
        """CheckpointError where one of these is quantised in a way that is not read, whatever its shape amounts to."""
        for name in names:
            if self._aliases.get(name, name) in self._encodings:
                self.check_readable(name)

    def check_any_readable(self) -> None:
        """CheckpointError where all that is quantised is so in a way that is not read."""
        refusals = [refusal(name, encoding) for name, encoding in self._encodings.items()]
        if refusals and all(refusals):
            raise CheckpointError(f"{self.path}: {refusals[0]}")

    def dtype_in_words(self, names: Sequence[str]) -> str:
        """The dtype that the first of these is read in, and the formats that they all come from."""
        there = [name for name in names if name in self._logical]
        dtype = self._logical[there[0]].dtype
        found = [self._encodings.get(self._aliases.get(name, name)) for name in there]
        formats = dict.fromkeys(encoding.format for encoding in found if encoding is not None)
        if not formats or dtype not in REAL_FLOATING:
            return dtype
        return f"{dtype} {'from' if found[0] is not None else 'and'} {' and '.join(formats)}"

    def dtype_of(self, name: str) -> np.dtype[Any]:
        """The dtype that `read_logical` gives."""
        return numpy_dtype(self._logical[name].dtype)

    def nbytes(self, name: str, expert: int | None = None) -> int:
        """How many bytes of the files a logical tensor is read from; of one expert where it is a stack of them."""
        encoding = self._encodings.get(self._aliases.get(name, name))
        sources = [self._aliases.get(name, name)] if encoding is None else list(encoding.sources)
        total = sum(self._tensors[source].nbytes for source in sources)
        shape = self._logical[name].shape
        return total // shape[0] if expert is not None and len(shape) == 3 and shape[0] else total

    def sources(self, name: str) -> tuple[str, ...]:
        """The names on disk that a logical tensor is read from; KeyError if there is no such tensor."""
        name = self._aliases.get(name, name)
        return self._encodings[name].sources if name in self._encodings else (self._tensors[name].name,)


def open_store(path: str | os.PathLike[str]) -> Store:
    """Open a checkpoint; only headers are read.

    Parameters
    ----------
    path : str or os.PathLike
        A directory with config.json and model.safetensors, or with an index and its shards; an index; one
        safetensors file, which is read alone, without a config.json beside it; a GGUF file. ~ is expanded.

    Raises
    ------
    TypeError
        The path is no str and no os.PathLike.
    FileNotFoundError
        The path is missing, or is an address.
    CheckpointError
        It holds no checkpoint that can be read.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be a str or an os.PathLike, got {kind_of(path)}")
    if re.match(r"[a-z][a-z0-9+.-]+://", os.fspath(path), re.IGNORECASE):
        raise FileNotFoundError(
            f"path must be that of a file or a directory on this machine, got the address {os.fspath(path)}; "
            "download the checkpoint and give the path of its directory"
        )
    try:
        path = Path(os.fspath(path)).expanduser()
    except RuntimeError as error:
        raise FileNotFoundError(f"no such file or directory: {path}: {error}") from None
    with guarded(str(path)):
        return Store(path, contents_of(path))
