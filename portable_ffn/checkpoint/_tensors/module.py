"""One linear layer of a quantised checkpoint, as a format sees it: its tensors by their endings, and the config."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from portable_ffn.checkpoint._files.tensor import Encoding, TensorInfo
from portable_ffn.checkpoint._tensors.scheme import Scheme

# What is looked at to learn a shape is never larger.
_SMALL = 1 << 16


class Plan(NamedTuple):
    """A logical tensor, its encoding, and the names on disk that it hides."""

    info: TensorInfo
    encoding: Encoding
    hidden: tuple[str, ...]


class Tensors(dict[str, TensorInfo]):
    """The tensors of a checkpoint by name, and those under a path without a look at all the others."""

    @cached_property
    def _ordered(self) -> list[str]:
        """The names, sorted."""
        return sorted(self)

    def under(self, path: str) -> list[str]:
        """The names under a path, in order."""
        first, last = (bisect_left(self._ordered, path + end) for end in "./")
        return self._ordered[first:last]


class Misfit(Exception):
    """What contradicts the format of one layer; the others are read all the same."""


@dataclass(frozen=True, slots=True)
class Module:
    """The tensors whose names begin with `name`, one of which, `values`, holds the codes."""

    name: str
    values: TensorInfo
    tensors: Tensors
    scheme: Scheme
    blocks: frozenset[tuple[int, int]]
    fetch: Callable[[str], np.ndarray[Any, Any]]

    def get(self, end: str) -> TensorInfo | None:
        """The tensor with this ending, None where there is none."""
        return self.tensors.get(self.name + end)

    def needed(self, end: str, *dtypes: str) -> TensorInfo:
        """The tensor with this ending, of one of the dtypes."""
        info = self.get(end)
        if info is None:
            raise Misfit(f"{self.name + end} must be there, and isn't")
        if dtypes and info.dtype not in dtypes:
            raise Misfit(f"{info.name} must be {' or '.join(dtypes)}, is {info.dtype}")
        return info

    def shaped(self, info: TensorInfo, *shapes: tuple[int, ...]) -> TensorInfo:
        """The tensor, if it has one of the shapes."""
        if info.shape not in shapes:
            raise Misfit(f"{info.name} must have shape {' or '.join(map(str, shapes))}, has {info.shape}")
        return info

    def small(self, info: TensorInfo) -> np.ndarray[Any, Any]:
        """The values of a tensor that says something of the others."""
        if info.nbytes > _SMALL:
            raise Misfit(f"{info.name} must be small, and has {info.nbytes} bytes")
        return self.fetch(info.name)

    def plan(
        self,
        format: str,
        shape: tuple[int, ...],
        sources: tuple[str, ...],
        decoder: str,
        how: Any = None,
        *,
        target: str = ".weight",
        hidden: tuple[str, ...] = (),
        linear: bool = True,
    ) -> Plan:
        """The plan of a tensor that is read; `sources` and `hidden` are endings."""
        info = self.values._replace(name=self.name + target, dtype="float32", shape=shape, linear=linear)
        names = tuple(self.name + end for end in sources)
        return Plan(info, Encoding(format, names, decoder, how), (*names, *(self.name + end for end in hidden)))


def decoded_shape(shape: tuple[int, ...], most: int = 2**60) -> tuple[int, ...]:
    """A shape that a file's own numbers amount to, if NumPy can hold it."""
    size = 1
    for n in shape:
        size *= max(int(n), 1)
    if size > most or any(n < 0 for n in shape):
        raise Misfit(f"a shape of {str(shape)[:80]} is none that can be")
    return shape
