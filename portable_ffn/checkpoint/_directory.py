"""Which files make up a checkpoint, and which are refused by name."""

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Final

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files import read_text, status
from portable_ffn.checkpoint._json import parse_object

SHARD: Final = re.compile(r"(?P<stem>.+)-(?P<number>\d+)-of-(?P<count>\d+)\.safetensors")

# What the files of other formats are called, and what to do with them.
_FOREIGN: Final = (
    (r".*\.(bin|pt|pth|ckpt|pkl|pickle|distcp)|checkpoint\d*", "PyTorch pickles, which can run code, are never loaded"),
    (r"__\d+_\d+\.distcp|\.metadata|mp_rank_\d+.*|iter_\d+|latest_checkpointed_iteration\.txt",
     "distributed PyTorch checkpoints hold pickles, which are never loaded"),
    (r".*\.(weights\.h5|keras|h5|hdf5)", "Keras and HDF5 files are not read"),
    (r".*\.msgpack", "Flax msgpack files are not read"),
    (r"_CHECKPOINT_METADATA|_METADATA|_sharding|manifest\.ocdbt|ocdbt\.process_.*", "Orbax checkpoints are not read"),
    (r".*\.onnx(_data)?", "ONNX models are not read"),
    (r"saved_model\.pb|.*\.(pb|tflite|index|data-\d+-of-\d+)", "TensorFlow files are not read"),
    (r".*\.(npz|npy)", "NumPy archives are not read"),
)


def config_of(directory: Path) -> dict[str, object]:
    """The directory's config.json; empty where there is none."""
    path = directory / "config.json"
    try:
        status(path)
    except FileNotFoundError:
        return {}
    # Infinity is no JSON, but transformers 4 wrote it (time_step_limit of the Mamba hybrids).
    return parse_object(read_text(path), str(path), infinity=True)


def find_files(directory: Path) -> tuple[list[Path], dict[str, str] | None, Path | None]:
    """The safetensors files of a directory, the tensors' places by the index, and the index; a lone GGUF file too."""
    names = _listing(directory)
    _refuse_adapters(directory, names)
    tensors = [name for name in names if name.endswith(".safetensors")]
    indexes = [name for name in names if name.endswith(".safetensors.index.json")]
    index = _one_index(directory, indexes)
    if index:
        places, files = read_index(directory / index)
        _refuse_strays(directory, tensors, files, index)
        return [directory / file for file in files], places, directory / index
    return [directory / name for name in _without_index(directory, names, tensors)], None, None


def _listing(directory: Path) -> list[str]:
    """The names in a directory, in order."""
    try:
        return sorted(entry.name for entry in directory.iterdir())
    except OSError as error:
        raise CheckpointError(f"{directory}: can't be listed: {error}") from None


def _refuse_adapters(directory: Path, names: Sequence[str]) -> None:
    """An adapter changes the layers of its base, so that neither may be read without the other."""
    found = [name for name in names if name == "adapter_config.json" or name.startswith("adapter_model.")]
    if found:
        raise CheckpointError(
            f"{directory}: {found[0]} is a PEFT (LoRA) adapter, which changes the base's weights; merge it "
            "(peft: merge_and_unload) and save the result, or read the base from a directory without it"
        )


def _one_index(directory: Path, indexes: Sequence[str]) -> str | None:
    """The index to go by, if there is one."""
    # Mistral's releases hold their weights twice, under the names of transformers and as "consolidated".
    chosen = [name for name in indexes if not name.startswith("consolidated")] or list(indexes)
    if len(chosen) > 1:
        raise CheckpointError(f"{directory}: holds several indexes, {', '.join(chosen)}; give the path of the one to read")
    return chosen[0] if chosen else None


def read_index(path: Path) -> tuple[dict[str, str], list[str]]:
    """An index's map from tensor to file, and the files, each named inside the index's directory and present."""
    index = parse_object(read_text(path), str(path))
    places = index.get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise CheckpointError(f"{path}: weight_map must map the names of tensors to names of files")
    files = sorted(set(places.values()))
    for file in files:
        _refuse_outside(path, file)
        try:
            status(path.parent / file)
        except FileNotFoundError:
            raise CheckpointError(f"{path}: names the file {file!r}, which isn't there") from None
    return places, files


def _refuse_outside(index: Path, file: str) -> None:
    """A shard must lie in the index's directory by its name; a link there may lead on, as in the hub's cache."""
    for kind in (PurePosixPath, PureWindowsPath):
        pure = kind(file)
        if pure.is_absolute() or pure.anchor or ".." in pure.parts:
            raise CheckpointError(f"{index}: names the file {file[:200]!r}, outside its directory")
    if not file.endswith(".safetensors"):
        raise CheckpointError(f"{index}: names the file {file[:200]!r}, which is no .safetensors file")


def _refuse_strays(directory: Path, tensors: Sequence[str], files: Sequence[str], index: str) -> None:
    """A file beside the index that it doesn't name may be a part of the model that would be missed."""
    stray = [name for name in tensors if name not in files and not name.startswith("consolidated")]
    if stray:
        raise CheckpointError(
            f"{directory}: {stray[0]} is not named by {index}; move it away, or give the path of the index to read that alone"
        )


def _without_index(directory: Path, names: Sequence[str], tensors: Sequence[str]) -> list[str]:
    """The files of a directory that has no index."""
    shards = {name: match for name in tensors if (match := SHARD.fullmatch(name))}
    if "model.safetensors" in tensors:
        stray = [name for name, match in shards.items() if match["stem"] == "model"]
        if stray:
            raise CheckpointError(f"{directory}: holds model.safetensors and the shard {stray[0]}, but no index says which counts")
        return ["model.safetensors"]
    if len(tensors) == 1 and not shards:
        return list(tensors)
    if tensors:
        _check_shards(directory, tensors, shards)
        return list(tensors)
    gguf = [name for name in names if name.endswith(".gguf")]
    if len(gguf) == 1:
        return gguf
    if gguf:
        raise CheckpointError(f"{directory}: holds several GGUF files, {', '.join(gguf[:8])}; give the path of one")
    refuse_names(directory, names)
    raise CheckpointError(f"{directory}: holds no checkpoint; config.json with model.safetensors or an index with its shards is expected")


def _check_shards(directory: Path, tensors: Sequence[str], shards: dict[str, re.Match[str]]) -> None:
    """Several files without an index: all the shards of one set, or no telling."""
    if len(shards) < len(tensors):
        raise CheckpointError(f"{directory}: holds several files and no index: {', '.join(tensors[:8])}; give the path of one")
    first = next(iter(shards.values()))
    if any((match["stem"], match["count"]) != (first["stem"], first["count"]) for match in shards.values()):
        raise CheckpointError(f"{directory}: holds shards of several sets and no index: {', '.join(tensors[:8])}")
    numbers = sorted(int(match["number"]) for match in shards.values())
    count = int(first["count"])
    # Some writers count from 0.
    if numbers != [*range(numbers[0], numbers[0] + count)] or numbers[0] > 1:
        raise CheckpointError(f"{directory}: has {len(numbers)} of the {count} shards {first['stem']}-*-of-{first['count']}, "
                              "and no index; fetch the missing ones")


def refuse_names(directory: Path, names: Sequence[str]) -> None:
    """Refuse, by what they are, the files of other formats."""
    for name in names:
        for pattern, reason in _FOREIGN:
            if re.fullmatch(pattern, name):
                raise CheckpointError(f"{directory}: holds {name}, and no safetensors; {reason}. "
                                      "Save the model with safetensors (save_pretrained does)")
