"""consolidated.00.pth, .01.pth ...: Meta's releases, whose matrices are split over ranks.

w1 and w3 are split by rows (ColumnParallelLinear), w2 by columns (RowParallelLinear); vectors are the same in all.
Source: llama/model.py of github.com/meta-llama/llama (FeedForward).
"""

import re
from pathlib import Path
from typing import Any, Final

import numpy as np

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.container import Container
from portable_ffn.checkpoint._files.tensor import TensorInfo

NAME: Final = re.compile(r"consolidated\.(\d+)\.(pth|pt|bin|safetensors)")
_AXES: Final = {"w1.weight": 0, "w3.weight": 0, "w2.weight": 1}


class Ranks:
    """The tensors of several ranks as one."""

    def __init__(self, ranks: list[Container]) -> None:
        self.ranks = ranks

    def array(self, info: TensorInfo) -> np.ndarray[Any, Any]:
        """The tensor, joined where it is split."""
        axis = _axis(info.name)
        parts = [rank.tensors[info.name] for rank in self.ranks]
        if axis is None:
            return self.ranks[0].source.array(parts[0])
        pairs = zip(self.ranks, parts, strict=True)
        return np.concatenate([rank.source.array(part) for rank, part in pairs], axis=axis)


def joined(files: list[Path], ranks: list[Container]) -> Container:
    """The ranks of one model, in their order."""
    numbers = [int(match[1]) for file in files if (match := NAME.fullmatch(file.name))]
    if numbers != list(range(len(files))):
        raise CheckpointError(
            f"{files[0].parent}: has the ranks {numbers} of a model, and {list(range(len(files)))} are needed"
        )
    tensors = {}
    for name, info in ranks[0].tensors.items():
        found = [rank.tensors.get(name) for rank in ranks]
        axis = _axis(name)
        if axis is None and len(info.shape) != 1:
            # How another matrix is split is not known, and no network reads it.
            continue
        shapes = [one.shape for one in found if one is not None and one.dtype == info.dtype]
        if len(shapes) < len(ranks) or any(len(shape) != len(info.shape) for shape in shapes):
            raise CheckpointError(f"{files[0].parent}: {name[:200]!r} must be in every rank, of one dtype")
        shape = info.shape
        if axis is not None:
            if any(one[1 - axis] != shape[1 - axis] for one in shapes):
                raise CheckpointError(f"{files[0].parent}: the parts of {name[:200]!r} must fit, have shapes {shapes}")
            total = sum(one[axis] for one in shapes)
            shape = (total, shape[1]) if axis == 0 else (shape[0], total)
        nbytes = sum(one.nbytes for one in found if one is not None) if axis is not None else info.nbytes
        tensors[name] = info._replace(name=name, shape=shape, nbytes=nbytes)
    notes = (f"files: {len(files)} ranks, w1 and w3 joined by rows, w2 by columns",)
    return Container(tensors, Ranks(ranks), {}, (*ranks[0].notes, *notes))


def _axis(name: str) -> int | None:
    """The axis along which a matrix of a network is split."""
    inner = ".".join(name.split(".")[-2:])
    return _AXES.get(inner)
