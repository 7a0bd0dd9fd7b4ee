"""From a candidate to a recipe: every fact is settled here, once, or the question is raised."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from portable_ffn.checkpoint._config.scope import Scope
from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._facts.activation import Chosen, choose_activation
from portable_ffn.checkpoint._facts.layout import Layout, decide_gate, decide_layout, matrix_shape
from portable_ffn.checkpoint._facts.sizes import check_sizes
from portable_ffn.checkpoint._facts.stages import Inside, inside
from portable_ffn.checkpoint._layers.candidates import Candidate, Info
from portable_ffn.checkpoint._layers.context import Question
from portable_ffn.checkpoint._loaded.recipe import Part, Recipe


@dataclass(frozen=True, slots=True)
class Facts:
    """What the caller knows: each None where it is left to the checkpoint."""

    activation: Any = None
    gate: str | None = None
    layout: str | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """A network as it was understood."""

    recipe: Recipe
    form: str
    activation: Chosen
    d_model: int
    d_ff: int
    evidence: tuple[str, ...]


def decide(
    question: Question,
    tensors: Mapping[str, Info],
    facts: Facts,
    layer: int,
    expert: int | None = None,
    adapter: int | None = None,
) -> Read:
    """The network that the candidate is.

    Raises `Undecided` where an argument has to settle something, CheckpointError where the tensors contradict each
    other, the config or the facts.
    """
    found, (scope, family, surveyed, named), groups = question.found, question.said, question.groups
    packed = _packed(question, tensors)
    shapes = _shapes(found, tensors, packed)
    b1, b2, c = (_bias(found, key, tensors) for key in (found.W1, found.W2, found.V))
    lengths = (_length(b1, tensors), _length(b2, tensors))
    layout = decide_layout(found, tensors, family, surveyed, scope, facts.layout, groups, shapes, lengths)
    if found.V is not None and matrix_shape(tensors[found.V], found.stacked and not packed) != matrix_shape(
        tensors[found.W1], found.stacked and not packed
    ):
        raise CheckpointError(
            f"{found.V} must have the shape of {found.W1}, {tensors[found.W1].shape}, got {tensors[found.V].shape}"
        )
    if _length(c, tensors) not in (None, layout.d_ff):
        raise CheckpointError(f"{c} must have the hidden layer's length, {layout.d_ff}, got {_length(c, tensors)}")
    _check_biases(found, scope, layout.fused, b1, b2, c)
    evidence = [f"names: {found.pattern.W1}, {found.pattern.V or '-'}, {found.pattern.W2}", layout.reason]
    halves: tuple[str | None, str | None] = (None, None)
    if layout.fused:
        halves, why = decide_gate(found, family, surveyed, scope, facts.gate)
        evidence.append(why)
    elif facts.gate is not None:
        evidence.append("gate: given, and of no use, since no matrix holds both branches")
    chosen = choose_activation(scope, question.path, family, named, facts.activation, layer, surveyed)
    evidence.append(chosen.reason)
    if not surveyed and scope.get("mlp_multipliers") is not None:
        raise CheckpointError(f"{scope.label} has mlp_multipliers, and what this family multiplies is not known")
    within = inside(found, tensors, family, scope, chosen, adapter, layout)
    evidence += within.evidence
    if not within.free_width:
        check_sizes(scope, layout.d_model, layout.d_ff, family.halved, found.parent or found.W1, facts.layout)
    recipe = _recipe(found, layout, halves, groups, expert, packed, (b1, b2, c), within)
    if question.is_expert:
        form = "expert"
        evidence.append("expert: the router that chooses and weights it is no part of it")
    elif layout.fused:
        form = "fused-gated"
    else:
        form = "gated" if found.V is not None else "dense"
    return Read(recipe, form, chosen, layout.d_model, layout.d_ff, tuple(evidence))


def count_experts(question: Question, tensors: Mapping[str, Info]) -> int | None:
    """How many experts one tensor stacks, or None where the candidate is one network."""
    if not question.found.stacked:
        return None
    packed = _packed(question, tensors)
    return packed or int(tensors[question.found.W2].shape[0])


def _packed(question: Question, tensors: Mapping[str, Info]) -> int:
    """The number of experts that a matrix packs along its rows (DBRX), else 0."""
    found, key = question.found, question.family.packed
    if not found.stacked or len(tensors[found.W2].shape) != 2:
        return 0
    config = question.scope.get("ffn_config")
    count = config.get(key) if key and isinstance(config, Mapping) else None
    if not isinstance(count, int) or count < 1 or tensors[found.W2].shape[0] % count:
        raise CheckpointError(f"{found.W2} packs experts, and the config must name their number; it doesn't")
    return count


def _shapes(found: Candidate, tensors: Mapping[str, Info], packed: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of W1 and W2 of one network."""
    if packed:
        rows, width = tensors[found.W1].shape
        # DBRX: w1 (E f, d) is (out, in), w2 (E f, d) is (in, out) already; both are told as Linear's would be.
        return (rows // packed, width), (width, tensors[found.W2].shape[0] // packed)
    return matrix_shape(tensors[found.W1], found.stacked), matrix_shape(tensors[found.W2], found.stacked)


def _bias(found: Candidate, key: str | None, tensors: Mapping[str, Info]) -> str | None:
    """The name of a matrix's bias where there is one."""
    if key is None:
        return None
    name = found.bias(key)
    return name if name in tensors else None


def _check_biases(found: Candidate, scope: Scope, fused: bool, b1: str | None, b2: str | None, c: str | None) -> None:
    """Refuse a network that has lost a bias: a surveyed one has both or none, in W1 and W2 or in its two branches."""
    pair = (found.W1, b1, found.W2, b2) if found.V is None else (found.W1, b1, found.V, c)
    if not fused and (pair[1] is None) != (pair[3] is None):
        has, lacks = (pair[0], pair[2]) if pair[3] is None else (pair[2], pair[0])
        raise CheckpointError(f"{lacks} must have a bias as {has} has, and there is none in the file")
    if scope.get("mlp_bias") is True and b1 is None and b2 is None:
        raise CheckpointError(f"{found.W1} must have a bias, since the config's mlp_bias is true; the file has none")


def _length(bias: str | None, tensors: Mapping[str, Info]) -> int | None:
    """The length of a bias: its last axis."""
    return None if bias is None else int(tensors[bias].shape[-1])


def _recipe(
    found: Candidate,
    layout: Layout,
    halves: tuple[str | None, str | None],
    groups: tuple[int, int],
    expert: int | None,
    packed: int,
    biases: tuple[str | None, ...],
    within: Inside,
) -> Recipe:
    """What is read, from which slices."""
    index = None if packed else expert
    rows = (expert * layout.d_ff, (expert + 1) * layout.d_ff) if packed and expert is not None else None

    def matrix(key: str, half: str | None = None, count: int = 1, out_first: bool = layout.out_first) -> Part:
        return Part(key, out_first, index, rows, half, count)

    def vector(key: str | None, half: str | None = None) -> Part | None:
        return None if key is None else Part(key, False, index, None, half)

    b1, b2, c = biases
    gate, linear = halves
    V = matrix(found.W1, linear) if layout.fused else None if found.V is None else matrix(found.V)
    return Recipe(
        W1=matrix(found.W1, gate, groups[0]),
        b1=vector(b1, gate),
        W2=matrix(found.W2, None, groups[1], layout.out_first and not packed),
        b2=vector(b2),
        V=V,
        c=vector(b1, linear) if layout.fused else vector(c),
        **within.stages(),
    )
