"""From a store to its entries: every candidate named, numbered, decided, and in the order of the layers."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from portable_ffn.checkpoint._config.gguf import gguf_config
from portable_ffn.checkpoint._config.spellings import fact
from portable_ffn.checkpoint._entry import Entry
from portable_ffn.checkpoint._errors import CheckpointError, Undecided
from portable_ffn.checkpoint._facts.decide import Decision, Facts, decide
from portable_ffn.checkpoint._facts.stages import unexplained
from portable_ffn.checkpoint._facts.sublayer import Placement, placement
from portable_ffn.checkpoint._layers.candidates import candidates
from portable_ffn.checkpoint._layers.consistency import incomplete, inconsistent, torn
from portable_ffn.checkpoint._layers.context import Context, Layer, acceptable, in_context
from portable_ffn.checkpoint._layers.numbering import NetworkSlice, idle, layer_numbers_of, variants
from portable_ffn.checkpoint._layers.paths import in_a_stack, natural, stack_of
from portable_ffn.checkpoint._own_file import is_own, read_own
from portable_ffn.checkpoint._tensors.store import Store, open_store


def find(
    path: str | os.PathLike[str],
    *,
    activation: Any = None,
    gate: str | None = None,
    layout: str | None = None,
) -> list[Entry]:
    """The feed-forward layers of a checkpoint, in their order; only headers are read.

    Parameters
    ----------
    path : str or os.PathLike
        A directory, an index of shards, a .safetensors or a .gguf file.
    activation : str, gate object or callable, optional
        What all layers have, whatever the checkpoint says.
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
        A fact that is none of the words above.
    TypeError
        A path or an activation of another kind.
    """
    for name, value, allowed in (
        ("gate", gate, ("first", "second", "interleaved")),
        ("layout", layout, ("out_in", "in_out")),
    ):
        if value is not None and value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    given = None if activation is None else fact(activation)
    return entries(open_store(path), Facts(given, gate, layout))


def entries(store: Store, facts: Facts) -> list[Entry]:
    """All feed-forward layers of a checkpoint, in the order of stacks and layers."""
    if is_own(store):
        return [_own(store, facts)]
    known: dict[str, Context] = {}
    config = gguf_config(store.config) if "general.architecture" in store.config else store.config
    named = [in_context(candidate, config, known) for candidate in candidates(store.logical)]
    accepted = [layer for layer in named if acceptable(layer, store.logical)]
    remains = [in_context(candidate, config, known) for candidate in torn(named, accepted, store.logical)]
    whole = [*accepted, *incomplete(named, accepted), *(layer for layer in remains if not idle(layer))]
    layered = [layer for layer in whole if in_a_stack(layer.path)]
    # Networks outside any stack (projectors, heads) only where the file holds nothing else.
    layers = layered or whole
    names = sorted(store.logical)
    odd = inconsistent(layers, store.logical)
    slices = [one for layer in layers for one in variants(layer, store.logical, names)]
    made = [
        _entry(one, number, store, names, facts, odd)
        for one, number in zip(slices, layer_numbers_of(slices), strict=True)
    ]
    return _unique(sorted(made, key=_order))


def _own(store: Store, facts: Facts) -> Entry:
    """The entry of this library's own file."""
    problem: CheckpointError | None = None
    decision: Decision | None = None
    shapes = {name: info.shape for name, info in store.tensors.items()}
    try:
        recipe, chosen = read_own(store, facts.activation)
        form = "dense" if recipe.V is None else "gated"
        d_model, d_ff = shapes["W1"]
        decision = Decision(recipe, form, chosen, d_model, d_ff, ("names: this library's own", chosen.reason))
    except CheckpointError as error:
        problem = error
    return Entry(
        name="",
        stack="main",
        layer=0,
        form="gated" if "V" in shapes else "dense",
        activation=decision.activation.activation if decision else None,
        d_model=decision.d_model if decision else None,
        d_ff=decision.d_ff if decision else None,
        dtype=store.tensors["W1"].dtype,
        tensors=tuple(sorted(shapes)),
        evidence=decision.evidence if decision else (),
        problem=problem,
        store=store,
        decision=decision,
    )


def _entry(
    one: NetworkSlice,
    number: int,
    store: Store,
    names: Sequence[str],
    facts: Facts,
    odd: Mapping[str, str],
) -> Entry:
    """The entry of one network, with its problem where it can't be decided."""
    layer, candidate = one.layer, one.layer.candidate
    decision: Decision | None = None
    problem: CheckpointError | None = None
    try:
        if candidate.W2 in odd:
            raise CheckpointError(
                f"{candidate.parent} must hold what the other layers of its stack do, and "
                f"{odd[candidate.W2]} is missing; the checkpoint is damaged, or has layers of two kinds"
            )
        store.check_formats(candidate.matrices)
        decision = decide(layer, store.logical, facts, number, one.slice, one.adapter)
        keys = tuple(decision.recipe.keys())
        left = unexplained(candidate, names, frozenset(keys), layer.family, layer.is_expert)
        if left:
            raise CheckpointError(
                f"{candidate.parent} must hold a plain network to be understood, and it also holds "
                f"{', '.join(left[:3])}{' ...' if len(left) > 3 else ''}, whose part in it is not known"
            )
        for key in keys:
            store.check_readable(key)
    except CheckpointError as error:
        problem = _with_hint(error, store)
        keys = tuple(key for key in candidate.matrices if key in store.logical)
    tensors = tuple(dict.fromkeys(source for key in keys for source in store.sources(key)))
    return Entry(
        name=_common_path(keys),
        stack=stack_of(layer.path, layer.scope.says_text),
        layer=number,
        form=decision.form if decision else "expert" if layer.is_expert else "gated" if candidate.V else "dense",
        activation=decision.activation.activation if decision else None,
        d_model=decision.d_model if decision else None,
        d_ff=decision.d_ff if decision else None,
        dtype=store.dtype_in_words(candidate.matrices),
        tensors=tensors,
        evidence=decision.evidence if decision else (),
        expert=one.expert,
        problem=problem,
        store=store,
        decision=decision,
        mark=_mark(one),
        placement=_placement(layer, decision, store),
    )


def _with_hint(error: CheckpointError, store: Store) -> CheckpointError:
    """The error, with a word on the config.json that would settle what is undecided and was not read."""
    beside = store.config_beside
    if not isinstance(error, Undecided) or beside is None:
        return error
    hint = f"or give the directory {beside.parent}, whose config.json is not read with a file alone"
    return Undecided(f"{error}, {hint}", error.argument)


def _placement(layer: Layer, decision: Decision | None, store: Store) -> Placement | None:
    """What stands round a network; nothing is said of one expert of several."""
    if decision is None or layer.is_expert:
        return None
    return placement(layer.scope, layer.candidate.parent, store.logical)


def _common_path(keys: Sequence[str]) -> str:
    """The longest dotted path that holds all of the tensors."""
    split = [key.split(".") for key in keys]
    common = []
    for parts in zip(*split, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return ".".join(common if len(keys) > 1 else common[:-1])


def _mark(one: NetworkSlice) -> str:
    """What tells a network from another of the same path: its number, or the name of its first matrix."""
    if one.adapter is not None:
        return str(one.adapter)
    if one.slice is not None:
        return str(one.slice)
    return one.layer.candidate.pattern.W1.split(".")[0]


def _order(entry: Entry) -> tuple[object, ...]:
    """By path with numbers in their natural order, then by expert."""
    return natural(entry.name), entry.layer, -1 if entry.expert is None else entry.expert, entry.mark


def _unique(made: Sequence[Entry]) -> list[Entry]:
    """Names made unique."""
    counts = Counter(entry.name for entry in made)
    return [replace(e, name=f"{e.name}#{e.mark}") if counts[e.name] > 1 else e for e in made]
