"""What the headers of all files of a checkpoint say, taken together."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.container import dotted
from portable_ffn.checkpoint._files.containers import kind_of_file, read_container
from portable_ffn.checkpoint._files.directory import Index, find_files, gguf_parts, left_aside, read_config, read_index
from portable_ffn.checkpoint._files.foreign import refuse_adapter_files, refuse_adapter_tensors, refuse_names
from portable_ffn.checkpoint._files.gguf import read_gguf
from portable_ffn.checkpoint._files.mapped import Held, Mapped, Source, identity, is_directory, status
from portable_ffn.checkpoint._files.orbax import is_orbax, read_orbax
from portable_ffn.checkpoint._files.safetensors import read_header
from portable_ffn.checkpoint._files.tensor import Encoding, TensorInfo
from portable_ffn.checkpoint._tensors.gguf import plan_gguf
from portable_ffn.checkpoint._tensors.gguf_names import renamed
from portable_ffn.checkpoint._tensors.quantised import decode_plan


class Contents(NamedTuple):
    """What the headers of a checkpoint say; `aliases` are tied tensors, by the name under which each is stored."""

    config: dict[str, Any]
    metadata: dict[str, str]
    tensors: dict[str, TensorInfo]
    logical: dict[str, TensorInfo]
    encodings: dict[str, Encoding]
    aliases: dict[str, str]
    files: dict[Path, Source]
    notes: tuple[str, ...] = ()


def contents_of(path: Path) -> Contents:
    """What the headers of the path's files say."""
    if is_directory(path):
        found = find_files(path)
        contents = read_contents(found, read_config(path))
        read = found if isinstance(found, list) else list({*found.places.values()})
        if aside := left_aside(path, read):
            first = ", ".join(sorted(file.name for file in read)[:3])
            note = f"files: {first} read, not {', '.join(aside[:3])} beside it"
            contents = contents._replace(notes=(*contents.notes, note))
        return contents
    if path.name.endswith(".index.json"):
        return read_contents(read_index(path), read_config(path.parent))
    refuse_adapter_files(path.parent, [path.name])
    if not path.name.endswith(".safetensors") and kind_of_file(path) is None:
        refuse_names(path.parent, [path.name])
    if path.name.endswith(".json"):
        raise CheckpointError(f"{path}: holds no tensors; give the path of the directory")
    return read_contents(gguf_parts(path) if path.name.endswith(".gguf") else [path], {})


def read_contents(found: list[Path] | Index, config: dict[str, Any]) -> Contents:
    """The tensors of all files; by an index, each in the file that it names, and no others."""
    files = found if isinstance(found, list) else sorted(set(found.places.values()))
    if files[0].name.endswith(".gguf"):
        return _read_gguf(files)
    if is_orbax(files[0]) or kind_of_file(files[0]) is not None:
        return _planned(_read_containers(found, files, config), files[0])
    contents = Contents(config, {}, {}, {}, {}, {}, {})
    for file in files:
        try:
            header = read_header(file)
        except FileNotFoundError:
            # Its directory lists it.
            raise CheckpointError(f"{file}: is a link to a file that isn't there") from None
        contents.files[file] = Mapped(file, header.known)
        for name, info in header.tensors.items():
            if name in contents.tensors:
                first = contents.tensors[name].file.name
                raise CheckpointError(f"{file}: tensor {name[:200]!r} is in {first} too; it must be in one file")
            contents.tensors[name] = info
        if len(files) == 1:
            contents.metadata.update(header.metadata)
    if isinstance(found, Index):
        _check_index(found, contents.tensors)
    return _planned(contents, files[0])


def _read_containers(found: list[Path] | Index, files: list[Path], config: dict[str, Any]) -> Contents:
    """The tensors of containers of other kinds; what a file says of its network serves where there is no config."""
    contents = Contents(config, {}, {}, {}, {}, {}, {})
    known = {file: identity(status(file)) for file in files if not is_directory(file)}
    read = [(files[0], read_orbax(files[0]))] if is_orbax(files[0]) else read_container(files)
    for file, container in read:
        held = known.get(file)
        contents.files[file] = container.source if held is None else Held(container.source, file, held)
        for name, info in container.tensors.items():
            if name in contents.tensors:
                raise CheckpointError(f"{file}: tensor {name[:200]!r} is in another file too; it must be in one")
            contents.tensors[name] = info
        contents = contents._replace(notes=(*contents.notes, *container.notes))
        if not contents.config:
            contents = contents._replace(config=dict(container.config))
    if isinstance(found, Index):
        places = {dotted(name): file for name, file in found.places.items()}
        _check_index(found._replace(places=places), contents.tensors)
    return contents


def _planned(contents: Contents, first: Path) -> Contents:
    """The contents with their tensors as they are meant."""
    refuse_adapter_tensors(first, contents.tensors)

    def fetch(name: str) -> np.ndarray[Any, Any]:
        info = contents.tensors[name]
        return contents.files[info.file].array(info)

    logical, encodings = decode_plan(contents.tensors, contents.config, fetch, contents.metadata)
    aliases = _aliases(contents, logical)
    logical |= {name: logical[kept]._replace(name=name) for name, kept in aliases.items()}
    return contents._replace(logical=logical, encodings=encodings, aliases=aliases)


def _aliases(contents: Contents, logical: Mapping[str, TensorInfo]) -> dict[str, str]:
    """The names that the metadata give to tied tensors, of which safetensors' save_model stores one."""
    taken = contents.tensors.keys() | logical.keys()
    pairs = contents.metadata.items()
    return {name: kept for name, kept in pairs if "." in name and name not in taken and kept in logical}


def _check_index(index: Index, tensors: Mapping[str, TensorInfo]) -> None:
    """The index and the shards must say the same."""
    for name, file in index.places.items():
        if name not in tensors or tensors[name].file != file:
            raise CheckpointError(f"{index.path}: puts {name[:200]!r} into {file.name}, which doesn't hold it")
    for name, info in tensors.items():
        if name not in index.places:
            raise CheckpointError(f"{index.path}: doesn't name {name[:200]!r}, which is in {info.file.name}")


def _read_gguf(files: list[Path]) -> Contents:
    """A GGUF file, or the parts of one in their order, whose metadata serve as the config."""
    contents = Contents({}, {}, {}, {}, {}, {}, {})
    logical: dict[str, TensorInfo] = {}
    kinds: dict[str, str] = {}
    for number, file in enumerate(files):
        mapped = Mapped(file, identity(status(file)))
        header = read_gguf(file, mapped)
        count, own = header.metadata.get("split.count", 1), header.metadata.get("split.no", 0)
        if (count, own) != (len(files), number) and (count not in (0, 1) or len(files) > 1):
            raise CheckpointError(
                f"{file}: says that it is part {own} of {count} of a split GGUF, counted from 0, and stands as part "
                f"{number} of {len(files)}; put all parts into one directory, under the names they were given"
            )
        for name, info in header.tensors.items():
            if name in contents.tensors:
                first = contents.tensors[name].file.name
                raise CheckpointError(f"{file}: tensor {name[:200]!r} is in {first} too; it must be in one part")
            contents.tensors[name] = info
        logical |= header.logical
        kinds |= header.kinds
        contents.files[file] = mapped
        # The first part has the metadata of the model, the others their own number alone.
        contents.config.update({key: value for key, value in header.metadata.items() if key not in contents.config})
    texts = {key: str(value) for key, value in contents.config.items() if not isinstance(value, list)}
    meant, encodings = plan_gguf(contents.tensors, logical, kinds)
    aliases = {new: old for old, new in renamed(meant, contents.config).items()}
    meant = {name: info for name, info in meant.items() if name not in aliases.values()} | {
        new: meant[old]._replace(name=new) for new, old in aliases.items()
    }
    return contents._replace(metadata=texts, logical=meant, encodings=encodings, aliases=aliases)
