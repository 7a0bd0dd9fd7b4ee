"""From a store to its entries: every candidate named, numbered, decided, and in the order of the layers."""

import logging
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from portable_ffn.checkpoint._blocks import with_blocks
from portable_ffn.checkpoint._config.diffusers import diffusers_config
from portable_ffn.checkpoint._config.gguf import gguf_config
from portable_ffn.checkpoint._decided import entry_of, own_entry
from portable_ffn.checkpoint._entry import Entry
from portable_ffn.checkpoint._errors import CheckpointError, guarded
from portable_ffn.checkpoint._facts.given import Facts, given_facts
from portable_ffn.checkpoint._layers.candidates import candidates
from portable_ffn.checkpoint._layers.consistency import incomplete, inconsistent, torn, unequal
from portable_ffn.checkpoint._layers.context import Context, acceptable, in_context
from portable_ffn.checkpoint._layers.numbering import NetworkSlice, idle, layer_numbers_of, variants
from portable_ffn.checkpoint._layers.paths import in_a_stack, natural
from portable_ffn.checkpoint._own_file import is_own
from portable_ffn.checkpoint._tensors.store import Store, open_store
from portable_ffn.checkpoint._visible import visible

MOST_NETWORKS: Final = 200_000
"""Of one checkpoint, each expert counted; the largest published have 25,000."""

_log = logging.getLogger(__name__)


def find(
    path: str | os.PathLike[str],
    *,
    activation: Any = None,
    gate: str | Mapping[str, str] | None = None,
    layout: str | Mapping[str, str] | None = None,
) -> list[Entry]:
    """The feed-forward layers of a checkpoint, in their order; only headers are read.

    Parameters
    ----------
    path : str or os.PathLike
        A directory, an index of shards, a .safetensors or a .gguf file.
    activation : str, gate object or callable, optional
        What all layers have, whatever the checkpoint says. This and the next two may be a mapping of stacks, or of
        words of their names, to the fact of each: activation={"vision": "quick_gelu"}.
    gate : {"first", "second", "interleaved"}, optional
        Where a matrix of both branches has the gate.
    layout : {"out_in", "in_out"}, optional
        Whether matrices are stored (outputs, inputs), as torch.nn.Linear does, or (inputs, outputs).

    Returns
    -------
    list of Entry
        Layers that can't be loaded as they stand are among them, with their `problem`.

    Raises
    ------
    FileNotFoundError
        The path is missing.
    CheckpointError
        It can't be read.
    ValueError
        A fact that is none of the words above, or that of a stack which the checkpoint hasn't.
    TypeError
        A path or an activation of another kind.
    """
    facts = given_facts(activation, gate, layout)
    found = entries(open_store(path), facts)
    facts.check_stacks({entry.stack for entry in found})
    return found


def entries(store: Store, facts: Facts) -> list[Entry]:
    """All feed-forward layers of a checkpoint, in the order of stacks and layers."""
    with guarded(str(store.path)):
        found = [own_entry(store, facts)] if is_own(store) else _entries(store, facts)
    _log.info("%s: %d tensors", visible(str(store.path)), len(store.tensors))
    for entry in found:
        told = f"{entry.form}; {'; '.join(entry.evidence)}" if entry.problem is None else str(entry.problem)
        _log.info("%s", visible(f"{entry.name}: {told}"))
    return found


def _entries(store: Store, facts: Facts) -> list[Entry]:
    """Those of a model's own checkpoint."""
    known: dict[str, Context] = {}
    config: Mapping[str, Any] = diffusers_config(store.config)
    if "general.architecture" in store.config:
        config = gguf_config(store.config)
    named = [in_context(candidate, config, known) for candidate in candidates(store.logical)]
    names = sorted(store.logical)
    accepted = [layer for layer in named if acceptable(layer, store.logical, names)]
    remains = [in_context(candidate, config, known) for candidate in torn(named, accepted, store.logical)]
    whole = [*accepted, *incomplete(named, accepted), *(layer for layer in remains if not idle(layer))]
    layered = [layer for layer in whole if in_a_stack(layer.path)]
    # Networks outside any stack (projectors, heads) only where the file holds nothing else.
    layers = layered or whole
    odd, uneven = inconsistent(layers, store.logical), unequal(layers, store.logical)
    slices: list[NetworkSlice] = []
    for layer in layers:
        slices += variants(layer, store.logical, names)
        if len(slices) > MOST_NETWORKS:
            raise CheckpointError(f"{store.path}: holds more than {MOST_NETWORKS} networks, which is the limit")
    numbers = layer_numbers_of(slices)
    if not slices:
        store.check_any_readable()
    made = [entry_of(one, n, store, names, facts, odd, uneven) for one, n in zip(slices, numbers, strict=True)]
    layered_entries = [(entry, one.layer) for entry, one in zip(made, slices, strict=True)]
    return _unique(sorted(with_blocks(layered_entries, store, names), key=_order))


def _order(entry: Entry) -> tuple[object, ...]:
    """By path with numbers in their natural order, then by expert."""
    return natural(entry.name), entry.layer, -1 if entry.expert is None else entry.expert, entry.mark


def _unique(made: Sequence[Entry]) -> list[Entry]:
    """Names made unique."""
    counts = Counter(entry.name for entry in made)
    return [replace(e, name=f"{e.name}#{e.mark}") if counts[e.name] > 1 else e for e in made]
