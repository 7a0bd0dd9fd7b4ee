"""Which networks a candidate is, one or each expert of a stack, and the number of the layer that each stands in."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._facts.decide import count_experts
from portable_ffn.checkpoint._facts.stages import adapters
from portable_ffn.checkpoint._layers.context import Question
from portable_ffn.checkpoint._layers.paths import layer_numbers, shape
from portable_ffn.checkpoint._tensors.store import TensorInfo


class One(NamedTuple):
    """A network to be: a candidate, which slice of its stacks, which low-rank addition, and which expert it is."""

    question: Question
    slice: int | None = None
    adapter: int | None = None
    expert: int | None = None


def variants(question: Question, tensors: Mapping[str, TensorInfo], names: Sequence[str]) -> list[One]:
    """The networks of one candidate: one, or each expert of a stack, or each use of a shared block."""
    lora = question.family.lora
    if lora is not None:
        used = adapters(f"{question.found.parent}.{lora}", names)
        if used:
            return [One(question, adapter=adapter) for adapter in used]
    try:
        count = count_experts(question, tensors)
    except CheckpointError:
        count = None
    if count is None:
        return [One(question, expert=_expert_number(question.path))]
    shared = any(part.startswith("share") for part in question.path.split("."))
    return [One(question, index, expert=None if shared else index) for index in range(count)]


def _expert_number(path: str) -> int | None:
    """N of experts.N or experts.expert_N at a path's end."""
    head, _, last = path.rpartition(".")
    last = last.removeprefix("expert_")
    return int(last) if last.isdigit() and head.rpartition(".")[2] == "experts" else None


def idle(question: Question) -> bool:
    """Whether it is an expert past those that the config counts: LongCat's zero experts hold what nothing reads."""
    number, count = _expert_number(question.path), question.scope.get("n_routed_experts")
    return number is not None and isinstance(count, int) and number >= count


def _home(one: One) -> str:
    """The path that is counted as a layer: an expert's is that of all experts."""
    path = one.question.path
    if one.expert is not None and not one.question.found.stacked:
        path = path.rpartition(".")[0]
    return path


def layers_of(ones: Sequence[One]) -> list[int]:
    """The layer's number of each."""
    groups: dict[str, list[int]] = defaultdict(list)
    homes = [_home(one) for one in ones]
    for i, home in enumerate(homes):
        groups[shape(home)].append(i)
    found = [0] * len(ones)
    for members in groups.values():
        for i, layer in zip(members, layer_numbers([homes[i] for i in members]), strict=True):
            found[i] = layer
    for i, one in enumerate(ones):
        if one.adapter is not None:
            # A shared block keeps an addition for each layer that uses it, in the order of these layers.
            uses = one.question.scope.get("hybrid_layer_ids")
            use = uses[one.adapter] if isinstance(uses, list) and one.adapter < len(uses) else one.adapter
            found[i] = use if isinstance(use, int) else one.adapter
    return found
