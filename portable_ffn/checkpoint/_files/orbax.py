"""Orbax checkpoints by tensorstore alone: OCDBT, or a folder of zarr or zarr 3 for each array.

_METADATA lists the tree's paths and says which of the two formats of zarr is used; the key of an array is its path
joined by dots. A checkpoint may keep its items in folders of their own (default, params, items). Sources:
orbax-checkpoint 0.12 (orbax/checkpoint/_src/metadata/tree.py, serialization/tensorstore_utils.py).
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.container import Container, check_size, named, needs
from portable_ffn.checkpoint._files.json import parse_object
from portable_ffn.checkpoint._files.mapped import read_json
from portable_ffn.checkpoint._files.scanned import unstacked
from portable_ffn.checkpoint._files.tensor import TensorInfo

MARKS: Final = ("_METADATA", "manifest.ocdbt", "_CHECKPOINT_METADATA", "_sharding")
_ITEMS: Final = ("default", "params", "items", "state", "model")
# Files and folders that are counted, at most.
_MOST: Final = 1_000_000


class OrbaxFiles:
    """The arrays of one checkpoint."""

    def __init__(self, path: Path, ocdbt: bool, driver: str) -> None:
        self.path = path
        self.ocdbt = ocdbt
        self.driver = driver

    def opened(self, name: str) -> Any:
        """One array, of which nothing is read yet."""
        import tensorstore

        base = {"driver": "file", "path": f"{self.path.resolve()}/"}
        store: dict[str, Any] = {"driver": "ocdbt", "base": base, "path": f"{name}/"}
        if not self.ocdbt:
            store = {"driver": "file", "path": f"{self.path.resolve()}/{name}/"}
        spec = {"driver": self.driver, "kvstore": store, "open": True}
        try:
            return tensorstore.open(spec, read=True, recheck_cached=False).result()
        except (ValueError, OSError, RuntimeError) as error:
            line = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            raise CheckpointError(f"{self.path}: {name[:200]!r} can't be opened by tensorstore: {line}") from None

    def array(self, info: TensorInfo) -> np.ndarray[Any, Any]:
        """The array in memory."""
        return self.part(info.name, ())

    def part(self, name: str, index: tuple[Any, ...]) -> np.ndarray[Any, Any]:
        """A part of an array; only its chunks are read."""
        found = self.opened(name)
        try:
            return np.asarray((found[index] if index else found).read().result())
        except (ValueError, OSError, RuntimeError) as error:
            raise CheckpointError(f"{self.path}: {name[:200]!r} can't be read: {str(error)[:200]}") from None


def item_of(path: Path) -> Path:
    """The folder of the checkpoint that holds arrays: the path itself, or the one item in it."""
    if (path / "_METADATA").is_file() or (path / "manifest.ocdbt").is_file():
        return path
    inner = [path / name for name in _ITEMS if any((path / name / mark).is_file() for mark in MARKS[:2])]
    return inner[0] if len(inner) == 1 else path


def is_orbax(path: Path) -> bool:
    """Whether a path is the folder of an Orbax checkpoint."""
    home = item_of(path)
    return any((home / mark).is_file() for mark in MARKS[:2])


def read_orbax(path: Path) -> Container:
    """The arrays of a checkpoint, whose headers are read."""
    try:
        import tensorstore  # noqa: F401
    except ImportError as error:
        raise needs(path, "tensorstore", "orbax", "an Orbax checkpoint") from error
    home = item_of(path)
    metadata = _metadata(home)
    ocdbt = (home / "manifest.ocdbt").is_file()
    source = OrbaxFiles(home, ocdbt, "zarr3" if metadata.get("use_zarr3") is True else "zarr")
    held = _bytes_under(home)
    infos = []
    for name in _names(home, metadata, ocdbt):
        found = source.opened(name)
        shape = tuple(int(n) for n in found.shape)
        dtype = str(found.dtype.name)
        nbytes = int(np.prod(shape, dtype=np.float64)) * found.dtype.numpy_dtype.itemsize
        check_size(home, name, nbytes, held)
        infos.append(TensorInfo(name, dtype, shape, path, 0, nbytes))
    if not infos:
        raise CheckpointError(
            f"{path}: must be an Orbax checkpoint with arrays, and has none; give the path of its item"
        )
    tensors = named(path, infos)
    return unstacked(Container(tensors, source), source.part)


def _metadata(home: Path) -> Mapping[str, Any]:
    """_METADATA, empty where there is none."""
    file = home / "_METADATA"
    return parse_object(read_json(file), str(file)) if file.is_file() else {}


def _names(home: Path, metadata: Mapping[str, Any], ocdbt: bool) -> Iterator[str]:
    """The keys of the arrays."""
    tree = metadata.get("tree_metadata")
    if isinstance(tree, Mapping) and tree:
        for row in tree.values():
            keys = row.get("key_metadata") if isinstance(row, Mapping) else None
            kind = row.get("value_metadata") if isinstance(row, Mapping) else None
            parts = [one.get("key") for one in keys if isinstance(one, Mapping)] if isinstance(keys, list) else []
            said = kind.get("value_type") if isinstance(kind, Mapping) else None
            skip = kind.get("skip_deserialize") if isinstance(kind, Mapping) else None
            if (
                parts
                and said in ("jax.Array", "np.ndarray")
                and not skip
                and not any("/" in str(part) for part in parts)
            ):
                yield ".".join(map(str, parts))
    elif not ocdbt:
        for folder in sorted(home.iterdir()):
            if (folder / ".zarray").is_file() or (folder / "zarr.json").is_file():
                yield folder.name
    else:
        yield from _listed(home)


def _listed(home: Path) -> Iterator[str]:
    """The keys of an OCDBT database that no metadata list."""
    import tensorstore

    try:
        base = {"driver": "file", "path": f"{home.resolve()}/"}
        store = tensorstore.KvStore.open({"driver": "ocdbt", "base": base}).result()
        keys = [key.decode("utf-8", "replace") for key in store.list().result()]
    except (ValueError, OSError, RuntimeError) as error:
        raise CheckpointError(f"{home}: can't be listed by tensorstore: {str(error)[:200]}") from None
    for key in sorted(keys):
        name, _, last = key.rpartition("/")
        if last in (".zarray", "zarr.json"):
            yield name


def _bytes_under(home: Path) -> int:
    """The bytes of all files of the checkpoint."""
    total = count = 0
    for folder, _, files in os.walk(home):
        for file in files:
            count += 1
            if count > _MOST:
                raise CheckpointError(f"{home}: has more than {_MOST} files")
            total += os.path.getsize(os.path.join(folder, file))
    return total
