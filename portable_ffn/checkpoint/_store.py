"""A checkpoint as one thing, whatever its files: what tensors it has, and their values."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from portable_ffn.checkpoint._directory import config_of, find_files, read_index, refuse_names
from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files import Mapped, TensorInfo, status
from portable_ffn.checkpoint._safetensors import read_header

__all__ = ["Store", "TensorInfo", "open_store"]


class Store:
    """The tensors of a checkpoint by name. Opening it reads the headers; an array reads what it touches.

    Attributes
    ----------
    path : pathlib.Path
        What was opened.
    config : dict
        config.json, or {}.
    metadata : dict
        The free texts of a checkpoint of one file.
    tensors : mapping
        On-disk name -> `TensorInfo`.
    logical : mapping
        Like `tensors`, with a quantised weight and its scales as one tensor of floats.
    """

    def __init__(self, path: Path, config: dict[str, Any], metadata: dict[str, str],
                 tensors: dict[str, TensorInfo], sizes: dict[Path, int]) -> None:
        self.path = path
        self.config = config
        self.metadata = metadata
        self.tensors: Mapping[str, TensorInfo] = MappingProxyType(tensors)
        self._files = {file: Mapped(file, size) for file, size in sizes.items()}
        self.logical: Mapping[str, TensorInfo] = self.tensors

    def read(self, name: str) -> np.ndarray:
        """The tensor as it is on disk: a read-only view of the mapped file."""
        info = self.tensors[name]
        return self._files[info.file].array(info)

    def read_logical(self, name: str) -> np.ndarray:
        """The tensor's values: dequantised to float32 where it is quantised, else as `read`."""
        return self.read(name)

    def sources(self, name: str) -> tuple[str, ...]:
        """The names on disk that a logical tensor is read from."""
        return (name,)


def open_store(path: str | os.PathLike[str]) -> Store:
    """Open a checkpoint: a directory, an index, or one file; only headers are read.

    Parameters
    ----------
    path : str or os.PathLike
        ~ is expanded.

    Raises
    ------
    FileNotFoundError
        The path is missing.
    CheckpointError
        It is there but is no checkpoint that can be read.
    """
    path = Path(os.fspath(path)).expanduser()
    if not _is_directory(path):
        if path.name.endswith(".safetensors.index.json"):
            places, files = read_index(path)
            return _open_files(path, [path.parent / file for file in files], places, path, config_of(path.parent))
        if not path.name.endswith(".safetensors"):
            refuse_names(path.parent, [path.name])
        return _open_files(path, [path], None, None, {})
    files, found, index = find_files(path)
    return _open_files(path, files, found, index, config_of(path))


def _is_directory(path: Path) -> bool:
    """Whether to look for files inside."""
    import stat

    return stat.S_ISDIR(status(path).st_mode)


def _open_files(path: Path, files: list[Path], places: dict[str, str] | None, index: Path | None,
                config: dict[str, Any]) -> Store:
    """The tensors of all files; with an index, each in the file that it names."""
    tensors: dict[str, TensorInfo] = {}
    sizes: dict[Path, int] = {}
    metadata: dict[str, str] = {}
    for file in files:
        found, metadata, sizes[file] = read_header(file)
        for name, info in found.items():
            if name in tensors:
                raise CheckpointError(f"{path}: tensor {name!r} is in two files, {tensors[name].file.name} and {file.name}")
            if places is not None and index is not None and places.get(name) != str(file.relative_to(index.parent).as_posix()):
                raise CheckpointError(f"{file}: holds tensor {name!r}, which the index {index.name} puts in {places.get(name)!r}")
            tensors[name] = info
    for name in places or {}:
        if name not in tensors:
            raise CheckpointError(f"{index}: puts tensor {name!r} in {(places or {})[name]!r}, which doesn't hold it")
    return Store(path, config, metadata if len(files) == 1 else {}, tensors, sizes)
