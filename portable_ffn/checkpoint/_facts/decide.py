"""From a candidate to a recipe: every fact is settled here, once, or the question is raised."""

from collections.abc import Mapping
from dataclasses import dataclass

from portable_ffn.checkpoint._config.scope import Scope
from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._facts.activation import ActivationChoice, choose_activation
from portable_ffn.checkpoint._facts.fits import check_activation, check_fits, check_learned, check_there
from portable_ffn.checkpoint._facts.given import Facts
from portable_ffn.checkpoint._facts.layout import decide_gate, decide_layout
from portable_ffn.checkpoint._facts.sizes import check_sizes
from portable_ffn.checkpoint._facts.stages import Stages, decide_stages
from portable_ffn.checkpoint._layers.candidates import Candidate, Info
from portable_ffn.checkpoint._layers.context import Layer
from portable_ffn.checkpoint._layers.numbering import count_experts, packed_experts
from portable_ffn.checkpoint._layers.readings import Layout, matrix_shape
from portable_ffn.checkpoint._loaded.recipe import Part, Recipe


@dataclass(frozen=True, slots=True)
class Decision:
    """A network as it was understood."""

    recipe: Recipe
    form: str
    activation: ActivationChoice
    d_model: int
    d_ff: int
    evidence: tuple[str, ...]


def decide(
    layer: Layer,
    tensors: Mapping[str, Info],
    facts: Facts,
    number: int,
    expert: int | None = None,
    adapter: int | None = None,
    unequal: bool = False,
) -> Decision:
    """The network that the candidate is; `unequal` says that the layers of its stack differ in width.

    Raises `Undecided` where an argument has to settle something, CheckpointError where the tensors contradict each
    other, the config or the facts.
    """
    candidate, (scope, family, surveyed, named, source), groups = layer.candidate, layer.context, layer.groups
    packed = packed_experts(layer, tensors)
    check_there(candidate, tensors, packed)
    count_experts(layer, tensors)
    shapes = _shapes(candidate, tensors, packed)
    b1, b2, c = (_bias(candidate, key, tensors) for key in (candidate.W1, candidate.W2, candidate.V))
    lengths = (_length(b1, tensors), _length(b2, tensors))
    layout = decide_layout(candidate, tensors, family, surveyed, scope, facts.layout, groups, shapes, lengths)
    if candidate.V is not None and matrix_shape(tensors[candidate.V], candidate.stacked and not packed) != matrix_shape(
        tensors[candidate.W1], candidate.stacked and not packed
    ):
        raise CheckpointError(
            f"{candidate.V} must have the shape of {candidate.W1}, {tensors[candidate.W1].shape}, got "
            f"{tensors[candidate.V].shape}"
        )
    _check_biases(candidate, scope, layout.fused, b1, b2, c, fixed=source is not None and bool(source.fixed))
    evidence = [f"names: {candidate.pattern.W1}, {candidate.pattern.V or '-'}, {candidate.pattern.W2}", layout.reason]
    halves: tuple[str | None, str | None] = (None, None)
    if layout.fused:
        halves, why = decide_gate(candidate, family, surveyed, scope, facts.gate)
        evidence.append(why)
    elif facts.gate is not None:
        evidence.append("gate: given, and of no use, since no matrix holds both branches")
    chosen = choose_activation(scope, layer.path, family, named, facts.activation, number, surveyed, source)
    evidence.append(chosen.reason)
    if not surveyed and scope.get("mlp_multipliers") is not None:
        raise CheckpointError(f"{scope.label} has mlp_multipliers, and what this family multiplies is not known")
    stages = decide_stages(candidate, tensors, family, scope, chosen, adapter, layout)
    evidence += stages.evidence
    if not stages.free_width:
        check_sizes(scope, layout.d_model, layout.d_ff, family, candidate.parent or candidate.W1, facts.layout, unequal)
    recipe = _recipe(candidate, layout, halves, groups, expert, packed, (b1, b2, c), stages)
    check_fits(recipe, tensors, layout.d_model, layout.d_ff)
    check_activation(chosen.activation, layout.d_ff, recipe.V is not None)
    if recipe.learned:
        check_learned(recipe.learned, str(chosen.activation), tensors, layout.d_ff)
    if layer.is_expert:
        form = "expert"
        evidence.append("expert: the router that chooses and weights it is no part of it")
    elif layout.fused:
        form = "fused-gated"
    else:
        form = "gated" if candidate.V is not None else "dense"
    return Decision(recipe, form, chosen, layout.d_model, layout.d_ff, tuple(evidence))


def _shapes(candidate: Candidate, tensors: Mapping[str, Info], packed: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of W1 and W2 of one network."""
    if packed:
        rows, *inner = tensors[candidate.W1].shape
        width = inner[0] if len(inner) == 1 else 0
        # DBRX: w1 (E f, d) is (out, in), w2 (E f, d) is (in, out) already; both are told as Linear's would be.
        return (rows // packed, width), (width, tensors[candidate.W2].shape[0] // packed)
    return matrix_shape(tensors[candidate.W1], candidate.stacked), matrix_shape(
        tensors[candidate.W2], candidate.stacked
    )


def _bias(candidate: Candidate, key: str | None, tensors: Mapping[str, Info]) -> str | None:
    """The name of a matrix's bias where there is one."""
    if key is None:
        return None
    name = candidate.bias(key)
    return name if name in tensors else None


def _check_biases(
    candidate: Candidate, scope: Scope, fused: bool, b1: str | None, b2: str | None, c: str | None, fixed: bool
) -> None:
    """Refuse a network that has lost a bias: a surveyed one has both or none, in W1 and W2 or in its two branches.

    `fixed` says that the code of the network looks up nothing in its config, mlp_bias included.
    """
    pair = (candidate.W1, b1, candidate.W2, b2) if candidate.V is None else (candidate.W1, b1, candidate.V, c)
    if not fused and (pair[1] is None) != (pair[3] is None):
        has, lacks = (pair[0], pair[2]) if pair[3] is None else (pair[2], pair[0])
        raise CheckpointError(f"{lacks} must have a bias as {has} has, and there is none in the file")
    experts = candidate.stacked or "expert" in candidate.parent
    said = scope.get("mlp_bias", outer=False) is True
    if said and not fixed and not experts and b1 is None and b2 is None:
        raise CheckpointError(
            f"{candidate.W1} must have a bias, since the config's mlp_bias is true; the file has none"
        )


def _length(bias: str | None, tensors: Mapping[str, Info]) -> int | None:
    """The length of a bias: its last axis; -1, which fits no matrix, where it has none."""
    if bias is None:
        return None
    return int(tensors[bias].shape[-1]) if tensors[bias].shape else -1


def _recipe(
    candidate: Candidate,
    layout: Layout,
    halves: tuple[str | None, str | None],
    groups: tuple[int, int],
    expert: int | None,
    packed: int,
    biases: tuple[str | None, ...],
    stages: Stages,
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
    V = matrix(candidate.W1, linear) if layout.fused else None if candidate.V is None else matrix(candidate.V)
    return Recipe(
        W1=matrix(candidate.W1, gate, groups[0]),
        b1=vector(b1, gate),
        W2=matrix(candidate.W2, None, groups[1], layout.out_first and not packed),
        b2=vector(b2),
        V=V,
        c=vector(b1, linear) if layout.fused else vector(c),
        **stages.fields(),
    )
