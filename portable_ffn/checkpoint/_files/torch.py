"""Files of torch.save, by torch.load(weights_only=True, mmap=True): a state_dict, as it is or nested.

No pickle is executed: the unpickler of weights_only knows tensors and containers alone. Before torch 2.6 it could be
made to run code (CVE-2025-32434), so an older torch is refused. Files of today are zip archives whose tensors are
mapped; those of before 1.6 are read whole. Format: torch/serialization.py of PyTorch 2.13.
"""

import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from portable_ffn._transfer.move import to_numpy
from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.container import Container, dotted, needs
from portable_ffn.checkpoint._files.dtypes import BITS, numpy_dtype
from portable_ffn.checkpoint._files.foreign import told_of_binary
from portable_ffn.checkpoint._files.mapped import open_regular
from portable_ffn.checkpoint._files.tensor import TensorInfo

_OLDEST: Final = (2, 6)
# torch.save before 1.6: a pickle of its magic number comes first.
_LEGACY: Final = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
# Where trainers put the state_dict, the first that is there.
_NESTED: Final = ("state_dict", "model_state_dict", "model", "module", "model_state", "params", "weights")


class TorchFile:
    """The tensors of one file, loaded at first use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state: dict[str, Any] | None = None

    def __reduce__(self) -> tuple[type["TorchFile"], tuple[Path]]:
        """Without the tensors, which belong to the process."""
        return type(self), (self.path,)

    def state(self) -> dict[str, Any]:
        """The tensors by their names in the file."""
        if self._state is None:
            self._state = dict(_flat(_inner(_load(self.path), self.path), ""))
        return self._state

    def array(self, info: TensorInfo) -> np.ndarray[Any, Any]:
        """The tensor, mapped where the file allows it."""
        if info.dtype not in BITS:
            raise CheckpointError(f"{info.name!r} is of {info.dtype}, which is not read; save it as a plain tensor")
        tensor = self.state()[info.name].detach()
        if info.dtype.startswith("float8"):
            import torch

            # NumPy's view of these is not torch's to give.
            array = np.asarray(tensor.contiguous().view(torch.uint8).numpy()).view(numpy_dtype(info.dtype))
        else:
            array = np.asarray(to_numpy(tensor))
        if array.flags.writeable:
            array = array.view()
            array.flags.writeable = False
        return array


def read_torch(path: Path) -> Container:
    """The tensors of a file; their values are read when they are asked for."""
    legacy = _check_kind(path)
    source = TorchFile(path)
    size = os.path.getsize(path)
    infos = {}
    for name, tensor in source.state().items():
        shape = tuple(tensor.shape)
        nbytes = tensor.numel() * tensor.element_size()
        kind = str(tensor.dtype).removeprefix("torch.")
        plain = (
            str(tensor.layout) == "torch.strided" and tensor.device.type == "cpu" and type(tensor).__name__ in _PLAIN
        )
        # A tensor may be spread out of one number of its file.
        if plain and nbytes > size:
            raise CheckpointError(f"{path}: tensor {name[:200]!r} has {nbytes} bytes, and the file {size}")
        infos[dotted(name)] = TensorInfo(name, kind if plain else f"{kind} ({tensor.layout})", shape, path, 0, nbytes)
    if not infos:
        raise CheckpointError(f"{path}: must hold a state_dict, and holds no tensor under a name")
    notes = (f"file: {path.name} is of torch before 1.6 and read whole, {size} bytes of memory",) if legacy else ()
    return Container(infos, source, {}, notes)


_PLAIN: Final = ("Tensor", "Parameter")


def _check_kind(path: Path) -> bool:
    """Whether the file is of the old format; CheckpointError where it is none of torch's."""
    with open_regular(path) as file:
        start = file.read(len(_LEGACY))
        size = os.fstat(file.fileno()).st_size
        if start == _LEGACY:
            return True
        if not start.startswith(b"PK"):
            raise CheckpointError(told_of_binary(path, start))
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, UnicodeError) as error:
            raise CheckpointError(f"{path}: must be a zip archive of torch.save, and is damaged: {error}") from None
    names = [member.filename for member in members]
    if any(name.endswith("/constants.pkl") for name in names):
        raise CheckpointError(f"{path}: is a TorchScript archive, whose code is not run; save its state_dict")
    if not any(name.endswith("data.pkl") for name in names):
        raise CheckpointError(f"{path}: is a zip archive, and none of torch.save; save the model's state_dict")
    if any(member.compress_type for member in members) or sum(member.file_size for member in members) > size:
        raise CheckpointError(f"{path}: holds packed members, as torch.save writes none; save the state_dict again")
    return False


def _load(path: Path) -> Any:
    """What the file holds, by the loader that runs no code."""
    try:
        import torch
    except ImportError as error:
        raise needs(path, "torch 2.6 or later", "torch", "a PyTorch file") from error
    version = tuple(int(n) for n in re.findall(r"\d+", torch.__version__)[:2])
    if version < _OLDEST:
        raise CheckpointError(
            f"{path}: reading a PyTorch file needs torch 2.6 or later, whose weights_only loader runs no code "
            f"(CVE-2025-32434), and torch {torch.__version__} is installed; update torch"
        )
    with open_regular(path) as file:
        mapped = file.read(2) == b"PK"
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except Exception as error:  # a damaged file raises what it likes
        line = next(iter(str(error).strip().splitlines()), "")[:300]
        found = re.search(r"GLOBAL ([\w.]+)", str(error)) or re.search(
            r"Unsupported (?:class|global)\W+([\w.]+)", str(error)
        )
        what = f"an object of {found[1]}" if found else f"something else ({line})"
        raise CheckpointError(
            f"{path}: must hold tensors alone, and torch.load(weights_only=True) found {what}; no pickle is executed; "
            "save the model's state_dict"
        ) from None


def _inner(found: Any, path: Path) -> Mapping[Any, Any]:
    """The state_dict, out of what a trainer keeps beside it."""
    for _ in range(4):
        if not isinstance(found, Mapping):
            raise CheckpointError(f"{path}: must hold a state_dict, holds a {type(found).__name__}")
        if "checkpoint_version" in found and isinstance(found.get("model"), Mapping):
            raise CheckpointError(
                f"{path}: is a Megatron checkpoint, whose layers are split over ranks; convert it with its own tool"
            )
        inner = next((found[key] for key in _NESTED if isinstance(found.get(key), Mapping)), None)
        if inner is None or any(hasattr(value, "element_size") for value in found.values()):
            return found
        found = inner
    return found  # type: ignore[no-any-return]


def _flat(found: Mapping[Any, Any], prefix: str, depth: int = 0) -> Any:
    """Every tensor with its dotted name."""
    for key, value in found.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and depth < 20:
            yield from _flat(value, name + ".", depth + 1)
        elif hasattr(value, "element_size"):
            yield name, value
