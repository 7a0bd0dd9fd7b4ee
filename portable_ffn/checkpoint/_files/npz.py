"""Archives of numpy.savez and MLX: a zip of .npy members, read one at a time and never unpickled.

Format: numpy/lib/format.py. MLX writes the same (mlx/io), its bfloat16 as two bytes without a name.
"""

import os
import zipfile
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.lib import format as npy

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.container import Container, check_size, named
from portable_ffn.checkpoint._files.dtypes import BITS, numpy_dtype
from portable_ffn.checkpoint._files.mapped import open_regular
from portable_ffn.checkpoint._files.tensor import TensorInfo

_DAMAGED: Final = (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError, UnicodeError)
_HEADER_LIMIT: Final = 10_000


class NpzFile:
    """The arrays of one archive."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def array(self, info: TensorInfo) -> np.ndarray[Any, Any]:
        """The array, unpacked."""
        if info.dtype not in BITS:
            raise CheckpointError(f"{self.path}: {info.name!r} is of {info.dtype}, which is not read")
        try:
            with open_regular(self.path) as file, zipfile.ZipFile(file) as archive, archive.open(info.name) as member:
                shape, fortran, _ = _header(member)
                data = member.read(info.nbytes + 1)
        except (*_DAMAGED, KeyError, zlib.error) as error:
            raise CheckpointError(f"{self.path}: {info.name!r} is damaged: {str(error)[:200]}") from None
        if len(data) != info.nbytes or shape != info.shape:
            raise CheckpointError(f"{self.path}: {info.name!r} must have {info.nbytes} bytes, has {len(data)}")
        flat = np.frombuffer(data, numpy_dtype(info.dtype))
        return flat.reshape(shape, order="F" if fortran else "C")


def read_npz(path: Path) -> Container:
    """The arrays of an archive, by their headers."""
    infos = []
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            size = os.fstat(file.fileno()).st_size
            for member in archive.infolist():
                if not member.filename.endswith(".npy"):
                    continue
                with archive.open(member) as stream:
                    shape, _, dtype = _header(stream)
                    nbytes = member.file_size - stream.tell()
                name = _common_name(dtype)
                count = 1
                for n in shape:
                    count *= n
                if name in BITS and count * dtype.itemsize != nbytes:
                    raise CheckpointError(
                        f"{path}: {member.filename[:200]!r} of shape {shape} doesn't fit its {nbytes} bytes"
                    )
                check_size(path, member.filename, nbytes, min(member.compress_size, size))
                infos.append(TensorInfo(member.filename, name, shape, path, 0, nbytes))
    except CheckpointError:
        raise
    except (*_DAMAGED, zlib.error) as error:
        raise CheckpointError(
            f"{path}: must be an archive of numpy.savez, and is damaged: {str(error)[:200]}"
        ) from None
    tensors = {name.removesuffix(".npy"): info for name, info in named(path, infos).items()}
    if not tensors:
        raise CheckpointError(f"{path}: holds no array under a name")
    return Container(tensors, NpzFile(path))


def _header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and dtype of a .npy member, whose stream then stands at the data."""
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(stream, max_header_size=_HEADER_LIMIT)
    return tuple(int(n) for n in shape), bool(fortran), dtype


def _common_name(dtype: np.dtype[Any]) -> str:
    """The common name of an array's dtype; two bytes without a name are bfloat16."""
    if dtype.kind == "V" and dtype.itemsize == 2 and dtype.names is None:
        return "bfloat16"
    if dtype.byteorder == ">":
        return f"big-endian {dtype.name}"
    return str(dtype.name)
