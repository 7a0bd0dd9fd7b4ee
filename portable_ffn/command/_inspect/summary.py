"""The layers of a checkpoint summed up: a row for each kind of layer of a stack, and what was not understood."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from portable_ffn.checkpoint._entry import Entry
from portable_ffn.checkpoint._layers.candidates import candidates, is_network_path
from portable_ffn.checkpoint._layers.paths import in_a_stack, shape, unwrap
from portable_ffn.checkpoint._layers.words import NETWORK_WORDS
from portable_ffn.checkpoint._tensors.store import Store
from portable_ffn.command._words import as_options

_TOP_K = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "top_k_experts", "moe_top_k", "top_k")
_TOO_GENERAL = frozenset({"linear", "moe"})
_NETWORK = NETWORK_WORDS - _TOO_GENERAL
# Tensors in a network's path that are a router's or a normalisation's, not a part that went unread.
_NOT_OURS = ("router", "gate.", "norm", "bias", "scale", "rotary", "running_", "num_batches")


class Row(NamedTuple):
    """Layers of one stack that differ in their number only. Parameters and FLOPs are of all of them, bytes of one."""

    stack: str
    layers: list[int]
    experts: int
    form: str
    activation: str
    d_model: int
    d_ff: int
    bias: bool
    dtype: str
    bits: float
    bytes: int
    parameters: int
    share: float
    flops: int | None
    evidence: list[str]
    names: list[str]


def rows(entries: Sequence[Entry], total: int) -> list[Row]:
    """The entries that are understood, by kind; `total` is how many parameters the model has."""
    kinds: dict[tuple[Any, ...], list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.problem is None:
            where = shape(entry.base if entry.expert is None else entry.base.rpartition(".")[0])
            kinds[
                entry.stack,
                where,
                entry.form,
                told(entry.activation),
                entry.d_model,
                entry.d_ff,
                entry.bias,
                entry.dtype,
                nbytes(entry),
                entry.expert is None,
            ].append(entry)
    return [_row(members, total) for members in kinds.values()]


def _row(members: list[Entry], total: int) -> Row:
    """One kind."""
    first = members[0]
    each = parameters(first)
    # A block that several layers share is there once.
    distinct = len({(entry.tensors[0], entry.expert) for entry in members})
    layers = sorted({entry.layer for entry in members})
    experts = 0 if first.expert is None else len({entry.expert for entry in members})
    return Row(
        stack=first.stack,
        layers=layers,
        experts=experts,
        form=first.form,
        activation=told(first.activation),
        d_model=int(first.d_model or 0),
        d_ff=int(first.d_ff or 0),
        bias=first.bias,
        dtype=first.dtype,
        bits=bits(first),
        bytes=nbytes(first),
        parameters=each * distinct,
        share=each * distinct / total if total else 0.0,
        flops=_flops(first, len(members), len(layers), experts),
        evidence=list(first.evidence),
        names=[entry.name for entry in members],
    )


def nbytes(entry: Entry) -> int:
    """How many bytes of the files a layer's matrices and biases take; of a mixture, all its networks'."""
    if entry.experts:
        return sum(nbytes(network) for network in entry.networks)
    if entry.decision is None or entry.store is None:
        return 0
    recipe = entry.decision.recipe
    parts = (recipe.W1, recipe.b1, recipe.V, recipe.c, recipe.W2, recipe.b2)
    keys = {part.key: part.expert for part in parts if part is not None}
    return sum(entry.store.nbytes(key, expert) for key, expert in keys.items())


def bits(entry: Entry) -> float:
    """The bits that the files spend on each number of a layer, scales and the like included."""
    return round(8 * nbytes(entry) / max(parameters(entry), 1), 2)


def parameters(entry: Entry) -> int:
    """How many numbers one layer's matrices and biases hold."""
    if entry.decision is None:
        return 0
    recipe, d_model, d_ff = entry.decision.recipe, entry.decision.d_model, entry.decision.d_ff
    matrices = (2 if recipe.V is None else 3) * d_model * d_ff // max(recipe.W1.groups, 1)
    biases = sum(n for part, n in ((recipe.b1, d_ff), (recipe.c, d_ff), (recipe.b2, d_model)) if part is not None)
    return matrices + biases


def _flops(entry: Entry, count: int, layers: int, experts: int) -> int | None:
    """Floating-point operations of the matrix products for one token through all of the row's layers.

    Two for each number of a matrix. Of experts, the ones that a router chooses count; None where the config doesn't
    say how many.
    """
    if entry.decision is None:
        return None
    branches = 2 if entry.decision.recipe.V is None else 3
    each = 2 * branches * entry.decision.d_model * entry.decision.d_ff // max(entry.decision.recipe.W1.groups, 1)
    if not experts:
        return each * count
    config = entry.store.config if entry.store else {}
    chosen = next((n for key in _TOP_K for n in _values(config, key)), None)
    return None if chosen is None else each * layers * min(chosen, experts)


def _values(config: Any, key: str) -> list[int]:
    """The whole numbers under a key, in the config and in those nested in it."""
    if not isinstance(config, dict):
        return []
    found = [config[key]] if isinstance(config.get(key), int) and not isinstance(config[key], bool) else []
    return found + [n for inner in config.values() if isinstance(inner, dict) for n in _values(inner, key)]


def told(activation: Any) -> str:
    """An activation as a table has it."""
    if activation is None:
        return "?"
    return activation if isinstance(activation, str) else str(getattr(activation, "name", activation))


def total_parameters(store: Store) -> int:
    """How many numbers the checkpoint's tensors hold."""
    return sum(math.prod(info.shape) for info in store.logical.values())


def not_understood(entries: Sequence[Entry], store: Store) -> list[dict[str, Any]]:
    """What can't be loaded as it stands, and tensors in networks' paths that nothing reads; layers as one."""
    found: dict[str, dict[str, Any]] = {}
    for entry in entries:
        if entry.problem is not None:
            item = found.setdefault(
                shape(unwrap(entry.name)),
                {
                    "where": entry.name,
                    "count": 0,
                    "why": as_options(str(entry.problem)),
                    "argument": getattr(entry.problem, "argument", None),
                },
            )
            item["count"] += 1
    read = {name for entry in entries for name in entry.tensors}
    aside = frozenset(_set_aside(store))
    logical_read = {source for name in store.logical for source in store.sources(name) if source in read}
    for name, info in store.tensors.items():
        parts = name.split(".")
        if (
            name not in read
            and name not in logical_read
            and len(info.shape) > 1
            # A convolution of each channel by itself is no matrix of a network.
            and not (len(info.shape) > 2 and info.shape[1] == 1)
            and any(part in _NETWORK or (part not in _TOO_GENERAL and is_network_path(part)) for part in parts)
            and name not in aside
            and not any(word in name for word in _NOT_OURS)
        ):
            item = found.setdefault(
                shape(unwrap(name)),
                {"where": name, "count": 0, "why": "no layer that was found reads it", "argument": None},
            )
            item["count"] += 1
    return list(found.values())


def _set_aside(store: Store) -> Iterator[str]:
    """Tensors that are known and are no layer's: networks outside every stack, experts beyond those counted."""
    for candidate in candidates(store.logical):
        if not in_a_stack(unwrap(candidate.parent)):
            yield from (source for key in candidate.matrices for source in store.sources(key))
    count = store.config.get("n_routed_experts")
    if isinstance(count, int):
        for name in store.tensors:
            number = re.search(r"\.experts\.(\d+)\.", name)
            if number is not None and int(number[1]) >= count:
                yield name


def numbers(layers: Sequence[int]) -> str:
    """Layer numbers as ranges: 0-11, or 0, 2-4."""
    spans: list[list[int]] = []
    for n in layers:
        if spans and n == spans[-1][1] + 1:
            spans[-1][1] = n
        else:
            spans.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
