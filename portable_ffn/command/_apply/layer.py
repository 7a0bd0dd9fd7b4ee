"""The layer that is applied, its weights mapped or cast, and what says whether it is still the same one."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from portable_ffn._arrays.dtype import dtype_name, widest
from portable_ffn.command import CannotRun
from portable_ffn.command._apply.fingerprint import Fingerprint, arrays_of, fingerprint, versions
from portable_ffn.command._apply.memory import RESERVE, Tracing, in_words, mapped_bytes
from portable_ffn.command._words import one_line


def choose(model: str, layer: int, stack: str | None, name: str | None, facts: Mapping[str, Any]) -> Any:
    """The entry of the checkpoint that the arguments choose; CannotRun where they don't choose one."""
    from portable_ffn.checkpoint import find
    from portable_ffn.checkpoint._pick import pick, refuse_unused

    try:
        entry = pick(find(model, **facts), model, layer, stack, name)
        refuse_unused(entry, facts.get("gate"))
        return entry
    except (OSError, ValueError) as error:
        raise CannotRun(one_line(error)) from None


class Layer:
    """A layer that is loaded in the dtype that it is computed in with x, its weights mapped where they have that.

    Raises CannotRun where the weights alone don't fit the limit, before they are read where the sizes tell.
    """

    def __init__(self, entry: Any, dtype: str | None, x: np.dtype[Any], limit: int, tracing: Tracing) -> None:
        if entry.problem is not None:
            raise CannotRun(one_line(entry.problem))
        self.name: str = entry.name
        self.files = sorted({Path(info.file) for info in entry.store.tensors.values()})
        itemsize = 2 if entry.dtype in ("float16", "bfloat16") else 4
        matrices = 3 if entry.form in ("gated", "fused-gated") else 2
        _must_fit(entry, matrices * math.prod((entry.d_model, entry.d_ff, itemsize)), limit)
        self._versions = self._now()
        try:
            network = entry.load()
        except (OSError, ValueError) as error:
            raise CannotRun(one_line(error)) from None
        arrays = list(arrays_of(network))
        tracing.mapped = mapped_bytes(iter(arrays))
        self._read = self.fingerprint = fingerprint(network)
        wanted = dtype or widest([dtype_name(x), *(dtype_name(array.dtype) for array in arrays)])
        if any(dtype_name(array.dtype) != wanted for array in arrays):
            _must_fit(entry, tracing.mapped + sum(a.size for a in arrays) * np.dtype(wanted).itemsize, limit)
            network = network.to(dtype=wanted)
            self._read = fingerprint(network)
        _must_fit(entry, tracing.peak(), limit)
        self.network = network
        if self._now() != self._versions:
            raise CannotRun(f"{self.files[0].parent}: has changed while it was read; run again")

    def key(self) -> list[Any]:
        """What changes when the weights do: their numbers, and their files by size and time of change."""
        files = [[file.name, *one[2:4]] for file, one in zip(self.files, self._versions, strict=True)]
        return [self.name, self.fingerprint.arrays, files]

    def must_be_unchanged(self) -> None:
        """CannotRun where the weights are not those that were read at first: a mapped file shows who writes to it."""
        now = self._now()
        if now == self._versions:
            return
        if self._again() != self._read:
            raise CannotRun(f"the weights of {self.name} have changed while they were used; run again")
        self._versions = now

    def _again(self) -> Fingerprint:
        """The digests of what is in memory, and in mapped files, at this moment."""
        return fingerprint(self.network)

    def _now(self) -> list[list[int]]:
        """The versions of the files."""
        try:
            return versions(self.files)
        except OSError as error:
            raise CannotRun(f"the weights can't be read any more: {error.filename}: {error.strerror}") from None


def _must_fit(entry: Any, size: float, limit: int) -> None:
    """Refuse weights that don't fit."""
    if size + RESERVE > limit:
        raise CannotRun(
            f"--memory must be more than {in_words(size + RESERVE)} for the weights of {entry.name} and what "
            f"computes with them, got {in_words(limit)}",
        )
