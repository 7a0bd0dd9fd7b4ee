"""The inputs of a model's layers: random ones of its width, or a file's."""

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from portable_ffn.testing._backends.arrays import Float64


class Given(NamedTuple):
    """What enters one layer, and what another implementation says comes out of it (None where it doesn't)."""

    x: Float64
    y: Float64 | None


def random_inputs(d_model: int, layer: int, seed: int = 0, tokens: int = 4) -> Given:
    """Normal numbers, the same for a layer on every library."""
    return Given(np.random.default_rng([seed, layer]).standard_normal((tokens, d_model)), None)


class _OfFile(Mapping[int, Given]):
    """The inputs in a file, each read when it is asked for."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.layers = [
            int(words[1])
            for words in (name.split(".") for name in store.tensors)
            if len(words) == 3 and words[0] == "layers" and words[1].isdigit() and words[2] == "x"
        ]

    def __getitem__(self, layer: int) -> Given:
        if layer not in self.layers:
            raise KeyError(layer)
        y = f"layers.{layer}.y64"
        return Given(
            self.store.read(f"layers.{layer}.x").astype(np.float64),
            self.store.read(y).astype(np.float64) if y in self.store.tensors else None,
        )

    def __iter__(self) -> Iterator[int]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)


def file_inputs(path: str | os.PathLike[str]) -> Mapping[int, Given]:
    """The inputs in a safetensors file: layers.N.x of shape (..., d_model), and layers.N.y64 where it has that.

    Raises CheckpointError for a file that can't be read, ValueError for one without inputs.
    """
    from portable_ffn.checkpoint._tensors.store import open_store

    store = open_store(path)
    given = _OfFile(store)
    if not given:
        raise ValueError(f"{path} must have tensors named layers.N.x, (..., d_model), got {', '.join(store.tensors)}")
    return given
