"""Which files make up a checkpoint."""

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final, NamedTuple

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.containers import find_containers, kind_of_file
from portable_ffn.checkpoint._files.foreign import refuse_adapter_files, refuse_names
from portable_ffn.checkpoint._files.json import parse_object
from portable_ffn.checkpoint._files.mapped import read_json, status

_PART: Final = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
# Where tools put the quantisation's settings beside a config.json that lacks them, and what theirs is called.
_SETTINGS: Final = (
    ("quantize_config.json", "gptq"),
    ("quant_config.json", "awq"),
    ("quantization_config.json", None),
    ("hf_quant_config.json", "modelopt"),
)
_SHARD: Final = re.compile(r"(?P<stem>.+)-(?P<number>\d{1,9})-of-(?P<count>\d{1,9})\.safetensors")
_CONFIG_VALUES: Final = 500_000  # a label of each of 100,000 classes, there and back


class Index(NamedTuple):
    """A sharded checkpoint's index: its path, and the file of each tensor."""

    path: Path
    places: dict[str, Path]


def read_config(directory: Path) -> dict[str, Any]:
    """The directory's config.json; empty if there is none."""
    path = directory / "config.json"
    try:
        # Infinity is no JSON, but transformers 4 wrote it (time_step_limit of the Mamba hybrids).
        config = parse_object(read_json(path), str(path), infinity=True, values=_CONFIG_VALUES)
    except FileNotFoundError:
        if path.is_symlink():
            raise CheckpointError(f"{path}: is a link to a file that isn't there") from None
        config = _meta_params(directory)
    if not any(key in config for key in ("quantization_config", "quantization")):
        for name, method in _SETTINGS:
            settings = directory / name
            if settings.is_file():
                found = parse_object(read_json(settings), str(settings), infinity=True)
                return {**config, "quantization_config": {"quant_method": method, **found}}
    return config


def _meta_params(directory: Path) -> dict[str, Any]:
    """params.json of Meta's and Mistral's own releases, in the words of the others: their code has SiLU fixed."""
    path = directory / "params.json"
    found = parse_object(read_json(path), str(path)) if path.is_file() else {}
    if not {"dim", "n_layers"} <= found.keys():
        return {}
    said = {"hidden_size": found["dim"], "intermediate_size": found.get("hidden_dim")}
    return {"model_type": "llama", "hidden_act": "silu", **{key: n for key, n in said.items() if type(n) is int}}


def find_files(directory: Path) -> list[Path] | Index:
    """The files of a directory's checkpoint, or its index if it has one."""
    names = _listed(directory)
    refuse_adapter_files(directory, names)
    tensors = [name for name in names if name.endswith(".safetensors")]
    # Mistral's releases hold the weights twice: under the names of transformers, and as "consolidated".
    indexes = [name for name in names if name.endswith(".safetensors.index.json")]
    if not tensors and not indexes and not any(name.endswith(".gguf") for name in names):
        indexes = [name for name in names if re.fullmatch(r".*\.(bin|pth|pt|h5|msgpack)\.index\.json", name)]
    indexes = [name for name in indexes if not name.startswith("consolidated")] or indexes
    if len(indexes) > 1:
        raise CheckpointError(f"{directory}: has several indexes, {_list(indexes)}; give the path of the one to read")
    if indexes:
        index = read_index(directory / indexes[0])
        _refuse_strays(index, tensors)
        return index
    return [directory / name for name in _without_index(directory, names, tensors)]


def read_index(path: Path) -> Index:
    """An index, each of whose files is there, and inside its directory."""
    found = parse_object(read_json(path), str(path))
    places = found.get("weight_map")
    if not isinstance(places, dict) or not places or not all(isinstance(file, str) for file in places.values()):
        raise CheckpointError(f"{path}: weight_map must map the names of tensors to the names of files")
    files = {}
    for file in sorted(set(places.values())):
        _check_place(path, file)
        files[file] = path.parent / file
    return Index(path, {name: files[file] for name, file in places.items()})


def _check_place(index: Path, file: str) -> None:
    """A shard's name must lie inside the directory; a link there may lead on, as in the cache of the Hub."""
    for kind in (PurePosixPath, PureWindowsPath):
        pure = kind(file)
        if pure.anchor or ".." in pure.parts:
            raise CheckpointError(f"{index}: names the file {file[:200]!r}, outside its directory")
    ending = index.name.removesuffix(".index.json").rpartition(".")[2]
    if not file.endswith(f".{ending}"):
        raise CheckpointError(f"{index}: names the file {file[:200]!r}; only .{ending} files are read")
    try:
        status(index.parent / file)
    except FileNotFoundError:
        raise CheckpointError(f"{index}: names the file {file[:200]!r}, which isn't there") from None


def left_aside(directory: Path, read: Sequence[Path]) -> list[str]:
    """The names of other containers of weights in a directory, which are not read."""
    there = {path.name for path in read}
    names = [name for name in _listed(directory) if name not in there]
    return [name for name in names if name.endswith((".safetensors", ".gguf")) or kind_of_file(directory / name)]


def _refuse_strays(index: Index, tensors: Sequence[str]) -> None:
    """A file beside the index that it doesn't name may be a part of the model that would be missed."""
    named = {path.name for path in index.places.values()}
    stray = [name for name in tensors if name not in named and not name.startswith("consolidated")]
    if stray:
        raise CheckpointError(
            f"{index.path.parent}: {_list(stray)} is not named by {index.path.name}; move it away, or "
            "give the path of the index to read what it names"
        )


def _without_index(directory: Path, names: Sequence[str], tensors: Sequence[str]) -> Sequence[str]:
    """The files to read of a directory that has no index."""
    shards = [match for name in tensors if (match := _SHARD.fullmatch(name))]
    if "model.safetensors" in tensors:
        stray = [match[0] for match in shards if match["stem"] == "model"]
        if stray:
            raise CheckpointError(
                f"{directory}: has model.safetensors and {_list(stray)}; give the path of the one to read"
            )
        return ["model.safetensors"]
    if shards and len(shards) == len(tensors):
        _check_shards(directory, shards)
        return tensors
    if len(tensors) > 1:
        raise CheckpointError(f"{directory}: has several files, {_list(tensors)}, and no index; give the path of one")
    gguf = [name for name in names if name.endswith(".gguf")]
    if not tensors and gguf and all(_PART.fullmatch(name) for name in gguf):
        return [path.name for path in gguf_parts(directory / gguf[0])]
    if not tensors and len(gguf) > 1:
        raise CheckpointError(f"{directory}: has several GGUF files, {_list(gguf)}; give the path of one")
    if not tensors and not gguf and (found := find_containers(directory, names)):
        return [path.name if path != directory else "." for path in found]
    if not tensors and not gguf:
        refuse_names(directory, names)
        raise CheckpointError(f"{directory}: has no checkpoint; config.json and model.safetensors are looked for")
    return tensors or gguf


def gguf_parts(path: Path) -> list[Path]:
    """A GGUF file, or all parts of the one that it is a part of."""
    match = _PART.fullmatch(path.name)
    if match is None:
        return [path]
    count = int(match["count"])
    names = [f"{match['stem']}-{number:05d}-of-{match['count']}.gguf" for number in range(1, count + 1)]
    others = [name for name in _listed(path.parent) if _PART.fullmatch(name) and name not in names]
    if others:
        raise CheckpointError(f"{path.parent}: has parts of several GGUF files, {_list(others)} too; keep one set")
    missing = [name for name in names if not (path.parent / name).exists()]
    if missing or not count:
        raise CheckpointError(f"{path.parent}: lacks {_list(missing)} of the {count} parts of {match['stem']}")
    return [path.parent / name for name in names]


def _listed(directory: Path) -> list[str]:
    """The names in a directory."""
    try:
        return sorted(entry.name for entry in directory.iterdir())
    except OSError as error:
        raise CheckpointError(f"{directory}: can't be listed: {error.strerror}") from None


def _check_shards(directory: Path, shards: Sequence[re.Match[str]]) -> None:
    """Shards without an index must be those of one set, all of them; some writers count from 0."""
    sets = sorted({f"{match['stem']}-*-of-{match['count']}.safetensors" for match in shards})
    if len(sets) > 1:
        raise CheckpointError(f"{directory}: has shards of several sets, {_list(sets)}, and no index; keep one set")
    numbers = sorted(int(match["number"]) for match in shards)
    count = int(shards[0]["count"])
    if numbers[0] > 1 or numbers != list(range(numbers[0], numbers[0] + len(numbers))) or len(numbers) != count:
        raise CheckpointError(
            f"{directory}: has shards {str(numbers)[:80]} of {sets[0]}, and no index; {count} are needed"
        )


def _list(names: Sequence[str]) -> str:
    """The first few names."""
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
