"""Which networks a candidate is, one or each expert of a stack, and the number of the layer that each stands in."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._layers.candidates import Info, adapters
from portable_ffn.checkpoint._layers.context import Layer
from portable_ffn.checkpoint._layers.paths import layer_numbers, shape, whole

MOST_EXPERTS: Final = 16384
"""Experts of one layer; the most of a published model are 2048, and each becomes an entry."""


class NetworkSlice(NamedTuple):
    """A network to be: a candidate, which slice of its stacks, which low-rank addition, and which expert it is."""

    layer: Layer
    slice: int | None = None
    adapter: int | None = None
    expert: int | None = None


def count_experts(layer: Layer, tensors: Mapping[str, Info]) -> int | None:
    """How many experts one tensor stacks, or None where the candidate is one network."""
    if not layer.candidate.stacked:
        return None
    packed = packed_experts(layer, tensors)
    axes = tensors[layer.candidate.W2].shape
    count = packed or (axes[0] if axes else 0)
    if not 0 < count <= MOST_EXPERTS or not math.prod(axes):
        raise CheckpointError(
            f"{layer.candidate.W2} must stack 1 to {MOST_EXPERTS} experts that hold numbers, got shape {axes}"
        )
    return count


def packed_experts(layer: Layer, tensors: Mapping[str, Info]) -> int:
    """The number of experts that a matrix packs along its rows (DBRX), else 0."""
    candidate, key = layer.candidate, layer.family.packed
    if not candidate.stacked or len(tensors[candidate.W2].shape) != 2:
        return 0
    config = layer.scope.get("ffn_config")
    count = config.get(key) if key and isinstance(config, Mapping) else None
    if type(count) is not int or count < 1 or tensors[candidate.W2].shape[0] % count:
        raise CheckpointError(f"{candidate.W2} packs experts, and the config must name their number; it doesn't")
    return count


def variants(layer: Layer, tensors: Mapping[str, Info], names: Sequence[str]) -> list[NetworkSlice]:
    """The networks of one candidate: one, or each expert of a stack, or each use of a shared block."""
    lora = layer.family.lora
    if lora is not None:
        used = adapters(f"{layer.candidate.parent}.{lora}", names)
        if used:
            return [NetworkSlice(layer, adapter=adapter) for adapter in used]
    try:
        count = count_experts(layer, tensors)
    except CheckpointError:
        count = None
    if count is None:
        return [NetworkSlice(layer, expert=_expert_number(layer.path))]
    shared = any(part.startswith("share") for part in layer.path.split("."))
    return [NetworkSlice(layer, index, expert=None if shared else index) for index in range(count)]


def _expert_number(path: str) -> int | None:
    """N of experts.N or experts.expert_N at a path's end."""
    head, _, last = path.rpartition(".")
    return whole(last.removeprefix("expert_")) if head.rpartition(".")[2] == "experts" else None


def idle(layer: Layer) -> bool:
    """Whether it is an expert past those that the config counts: LongCat's zero experts hold what nothing reads."""
    number, count = _expert_number(layer.path), layer.scope.get("n_routed_experts")
    return number is not None and isinstance(count, int) and number >= count


def _home(one: NetworkSlice) -> str:
    """The path that is counted as a layer: an expert's is that of all experts."""
    path = one.layer.path
    if one.expert is not None and not one.layer.candidate.stacked:
        path = path.rpartition(".")[0]
    return path


def layer_numbers_of(slices: Sequence[NetworkSlice]) -> list[int]:
    """The layer's number of each."""
    groups: dict[str, list[int]] = defaultdict(list)
    homes = [_home(one) for one in slices]
    for i, home in enumerate(homes):
        groups[shape(home)].append(i)
    found = [0] * len(slices)
    for members in groups.values():
        for i, layer in zip(members, layer_numbers([homes[i] for i in members]), strict=True):
            found[i] = layer
    for i, one in enumerate(slices):
        if one.adapter is not None:
            # A shared block keeps an addition for each layer that uses it, in the order of these layers.
            uses = one.layer.scope.get("hybrid_layer_ids")
            use = uses[one.adapter] if isinstance(uses, list) and one.adapter < len(uses) else one.adapter
            found[i] = use if isinstance(use, int) else one.adapter
    return found
