"""The layer that is applied, its weights mapped or cast, and what says whether it is still the same one."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from portable_ffn._arrays.dtype import dtype_name, widest
from portable_ffn.command import CannotRun
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


def load(entry: Any, dtype: str | None, x: np.dtype[Any], limit: int, tracing: Tracing) -> Any:
    """The network in the dtype that it is computed in with x, its weights mapped where they have that already.

    Raises CannotRun where the weights alone don't fit the limit, before they are read where the sizes tell.
    """
    if entry.problem is not None:
        raise CannotRun(one_line(entry.problem))
    itemsize = 2 if entry.dtype in ("float16", "bfloat16") else 4
    matrices = 3 if entry.form in ("gated", "fused-gated") else 2
    _must_fit(entry, matrices * math.prod((entry.d_model, entry.d_ff, itemsize)), limit)
    try:
        network = entry.load()
    except (OSError, ValueError) as error:
        raise CannotRun(one_line(error)) from None
    arrays = list(arrays_of(network))
    tracing.mapped = mapped_bytes(iter(arrays))
    wanted = dtype or widest([dtype_name(x), *(dtype_name(array.dtype) for array in arrays)])
    if any(dtype_name(array.dtype) != wanted for array in arrays):
        _must_fit(entry, tracing.mapped + sum(a.size for a in arrays) * np.dtype(wanted).itemsize, limit)
        network = network.to(dtype=wanted)
    _must_fit(entry, tracing.peak(), limit)
    return network


def _must_fit(entry: Any, size: float, limit: int) -> None:
    """Refuse weights that don't fit."""
    if size + RESERVE > limit:
        raise CannotRun(
            f"--memory must be more than {in_words(size + RESERVE)} for the weights of {entry.name} and what "
            f"computes with them, got {in_words(limit)}",
        )


def arrays_of(network: Any) -> Iterator[Any]:
    """The arrays that a network holds: its weights and those of its normalisations."""
    norms = (getattr(network, place, None) for place in ("before", "middle", "after"))
    parts = [*network.weights, *(array for norm in norms if norm is not None for array in (norm.gamma, norm.beta))]
    return (array for array in parts if array is not None)


def identity_of(entry: Any) -> dict[str, Any]:
    """What changes when the layer does: its name, its facts, and its files by size and time of change."""
    files = sorted({Path(info.file) for info in entry.store.tensors.values()})
    return {
        "layer": entry.name,
        "activation": repr(entry.activation),
        "evidence": list(entry.evidence),
        "files": [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files],
    }
