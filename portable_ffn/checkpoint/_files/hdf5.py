"""HDF5 files by h5py: Keras' .weights.h5 and .h5, transformers' tf_model.h5, and the .keras zip round the first.

Keras 3 keeps the variables of a layer as .../vars/0, .../vars/1, the layer's own name as an attribute of vars; Keras 2
and transformers keep them under the names of the layers' weights, kernel:0 and bias:0. Kernels are (in, out). Only
datasets of the file itself are read: links to other files and what lies outside are not followed. Sources:
keras/src/saving/saving_lib.py, keras/src/legacy/saving/legacy_h5_format.py, the HDF5 file format specification 3.0.
"""

import io
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.container import Container, check_size, dotted, named, needs
from portable_ffn.checkpoint._files.json import parse_object
from portable_ffn.checkpoint._files.keras import config_of, renamed
from portable_ffn.checkpoint._files.mapped import open_regular
from portable_ffn.checkpoint._files.tensor import TensorInfo

# The order in which Keras keeps what Dense has.
_VARIABLES: Final = ("kernel", "bias")
_MEMBER: Final = "model.weights.h5"
_DEEPEST: Final = 40


class Hdf5File:
    """The datasets of one file, or of the one inside a .keras zip."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def array(self, info: TensorInfo) -> np.ndarray[Any, Any]:
        """The dataset in memory."""
        with _opened(self.path) as file:
            array = _one_axis(np.asarray(file[info.name][()]), info.name)
        if array.shape != info.shape or array.dtype.name != info.dtype:
            raise CheckpointError(f"{self.path}: {info.name[:200]!r} has changed since it was opened")
        return array


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The HDF5 file; whatever h5py raises is a CheckpointError."""
    try:
        import h5py
    except ImportError as error:
        raise needs(path, "h5py", "hdf5", "a Keras or HDF5 file") from error
    try:
        with open_regular(path) as raw, h5py.File(_inside(path, raw), "r") as file:
            yield file
    except CheckpointError:
        raise
    except (OSError, KeyError, ValueError, RuntimeError, TypeError, zipfile.BadZipFile, NotImplementedError) as error:
        raise CheckpointError(f"{path}: must be an HDF5 file, and is damaged: {str(error)[:200]}") from None


def _inside(path: Path, raw: Any) -> Any:
    """The HDF5 file itself, or the one inside a .keras zip, as a file of its bytes."""
    if raw.read(2) != b"PK":
        raw.seek(0)
        return raw
    with zipfile.ZipFile(raw) as archive:
        if _MEMBER not in archive.namelist():
            raise CheckpointError(f"{path}: is a zip archive without {_MEMBER}, so no .keras file")
        member = archive.getinfo(_MEMBER)
        check_size(path, _MEMBER, member.file_size, min(member.compress_size, os.fstat(raw.fileno()).st_size))
        return io.BytesIO(archive.read(member))


def read_hdf5(path: Path) -> Container:
    """The datasets of a file, by their headers, under the names of their layers."""
    infos: list[TensorInfo] = []
    layers: dict[str, str] = {}
    with _opened(path) as file:
        _walk(path, file, "", infos, layers, 0)
        settings = _text(file.attrs.get("model_config"))
    config = config_of(settings if settings else _keras_config(path))
    tensors = {}
    for name, info in named(path, infos).items():
        tensors[_in_layer(name, layers)] = info
    if not tensors:
        raise CheckpointError(f"{path}: must hold the weights of layers, and holds none")
    return Container(renamed(tensors, config), Hdf5File(path), config.settings)


def _walk(path: Path, group: Any, prefix: str, infos: list[TensorInfo], layers: dict[str, str], depth: int) -> None:
    """Every dataset of the file itself."""
    import h5py

    if depth > _DEEPEST:
        raise CheckpointError(f"{path}: its groups are nested more than {_DEEPEST} deep")
    for key in group:
        name = f"{prefix}{key}"
        if not isinstance(group.get(key, getlink=True), h5py.HardLink):
            raise CheckpointError(f"{path}: {name[:200]!r} is a link, and links are not followed; save the model again")
        found = group[key]
        if isinstance(found, h5py.Group):
            own = _text(found.attrs.get("name")) if key == "vars" else None
            if own:
                layers[dotted(name)] = own
            _walk(path, found, name + "/", infos, layers, depth + 1)
        elif isinstance(found, h5py.Dataset):
            if found.external or found.is_virtual:
                raise CheckpointError(f"{path}: {name[:200]!r} lies in other files, which are not read")
            nbytes = found.size * found.dtype.itemsize if found.size else 0
            check_size(path, name, nbytes, found.id.get_storage_size())
            shape = tuple(found.shape or ())
            infos.append(TensorInfo(name, found.dtype.name, _bias_shape(shape, name), path, 0, nbytes))


def _bias_shape(shape: tuple[int, ...], name: str) -> tuple[int, ...]:
    """A shape; transformers' Conv1D for TensorFlow keeps a bias as a matrix of one row."""
    return shape[1:] if len(shape) == 2 and shape[0] == 1 and "bias" in name.rpartition("/")[2] else shape


def _one_axis(array: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """The same of an array."""
    return array.reshape(_bias_shape(array.shape, name))


def _text(value: Any) -> str | None:
    """An attribute's text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None


def _in_layer(name: str, layers: Mapping[str, str]) -> str:
    """Keras 3's .../dense_1/vars/0 under the layer's own name, with the word that Dense has for the variable."""
    parent, _, last = name.rpartition(".")
    own = layers.get(parent)
    if own is None or not last.isdecimal() or int(last) >= len(_VARIABLES):
        return name
    outer = parent.removesuffix("vars").rstrip(".").rpartition(".")[0]
    return f"{outer}.{own}.{_VARIABLES[int(last)]}".lstrip(".")


def _keras_config(path: Path) -> str | None:
    """The config.json of a .keras zip."""
    with open_regular(path) as raw:
        if raw.read(2) != b"PK":
            return None
        try:
            with zipfile.ZipFile(raw) as archive:
                member = archive.getinfo("config.json")
                check_size(path, "config.json", member.file_size, member.compress_size)
                text = archive.read(member)
        except (KeyError, zipfile.BadZipFile, OSError, NotImplementedError):
            return None
    return json.dumps(parse_object(text, f"{path}: config.json", infinity=True))
