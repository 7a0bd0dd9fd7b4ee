"""The containers that are read beside safetensors and GGUF: one literal table, and what a directory holds of them."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.container import Container
from portable_ffn.checkpoint._files.hdf5 import read_hdf5
from portable_ffn.checkpoint._files.msgpack import read_msgpack
from portable_ffn.checkpoint._files.npz import read_npz
from portable_ffn.checkpoint._files.orbax import is_orbax, read_orbax
from portable_ffn.checkpoint._files.ranks import NAME as RANK
from portable_ffn.checkpoint._files.ranks import joined
from portable_ffn.checkpoint._files.torch import read_torch


class Kind(NamedTuple):
    """A container: what it is called, the names of its files, the extra that reads it, and its reader."""

    name: str
    files: str
    extra: str
    read: Callable[[Path], Container]


CONTAINERS: Final = (
    Kind("PyTorch", r".*\.(bin|pt|pth|ckpt)", "torch", read_torch),
    Kind("NumPy archive", r".*\.npz", "", read_npz),
    Kind("Keras or HDF5", r".*\.(keras|h5|hdf5)", "hdf5", read_hdf5),
    Kind("Flax msgpack", r".*\.msgpack", "msgpack", read_msgpack),
    Kind("Orbax", "", "orbax", read_orbax),
)

# What trainers keep beside a model, and tools beside an export.
_BESIDE: Final = re.compile(
    r"(training_args|optimizer|optim|scheduler|scaler|rng_state|random_states?|loss|ema_?\w*_?optimizer)[\w.-]*"
)
_SHARD: Final = re.compile(r"(.+)-(\d{1,9})-of-(\d{1,9})\.\w+")


def kind_of_file(path: Path) -> Kind | None:
    """The container that a file's name tells; None for safetensors, GGUF and a directory."""
    return next((kind for kind in CONTAINERS if kind.files and re.fullmatch(kind.files, path.name)), None)


def read_container(files: Sequence[Path]) -> list[tuple[Path, Container]]:
    """Each file's container; the ranks of one model as one."""
    found = []
    for file in files:
        kind = kind_of_file(file)
        if kind is None:
            raise CheckpointError(f"{file}: must be of the same kind as the files beside it, and is another")
        found.append((file, kind.read(file)))
    if len(found) > 1 and all(RANK.fullmatch(file.name) for file in files):
        return [(files[0], joined(list(files), [container for _, container in found]))]
    return found


def find_containers(directory: Path, names: Sequence[str]) -> list[Path]:
    """The files of a directory that has neither safetensors nor GGUF; empty where there is no container."""
    for kind in CONTAINERS:
        fitting = [
            name for name in names if kind.files and re.fullmatch(kind.files, name) and not _BESIDE.fullmatch(name)
        ]
        if fitting:
            return [directory / name for name in _one_set(directory, fitting)]
    return [directory] if is_orbax(directory) else []


def _one_set(directory: Path, names: Sequence[str]) -> Sequence[str]:
    """One file, the shards of one model, or its ranks; else the question which is meant."""
    for main in ("pytorch_model.bin", "model.keras", "tf_model.h5", "flax_model.msgpack"):
        if main in names:
            return [main]
    if all(RANK.fullmatch(name) for name in names):
        return sorted(names, key=lambda name: int(RANK.fullmatch(name)[1]))  # type: ignore[index]
    if len(names) == 1 and not _SHARD.fullmatch(names[0]):
        return names
    shards = [match for name in names if (match := _SHARD.fullmatch(name))]
    if len(shards) == len(names) and len({(match[1], match[3]) for match in shards}) == 1:
        numbers, count = sorted(int(match[2]) for match in shards), int(shards[0][3])
        if numbers not in (list(range(1, count + 1)), list(range(count))):
            raise CheckpointError(f"{directory}: has shards {str(numbers)[:80]} of {count}; all of them are needed")
        return sorted(names)
    listed = ", ".join(names[:6]) + (" ..." if len(names) > 6 else "")
    raise CheckpointError(f"{directory}: has several files, {listed}, and no index; give the path of one")
