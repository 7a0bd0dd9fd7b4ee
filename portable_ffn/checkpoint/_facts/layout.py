"""Which way round a layer's matrices lie, and which half of a fused one is the gate: shapes first, then facts."""

from collections.abc import Mapping

from portable_ffn.checkpoint._config.family import Family
from portable_ffn.checkpoint._config.scope import Scope
from portable_ffn.checkpoint._errors import CheckpointError, Undecided
from portable_ffn.checkpoint._layers.candidates import Candidate, Info
from portable_ffn.checkpoint._layers.readings import Layout, readings

_WIDTH_KEYS = (
    "hidden_size",
    "d_model",
    "n_embd",
    "dim",
    "embed_dim",
    "emb_dim",
    "model_dim",
    "hidden_dim",
    "d_embed",
    "true_hidden_size",
)


def _biases_allow(layout: Layout, b1: int | None, b2: int | None) -> bool:
    """Whether the biases have the lengths that a reading asks of them."""
    wide = layout.d_ff * (2 if layout.fused else 1)
    return b1 in (None, wide) and b2 in (None, layout.d_model)


def decide_layout(
    candidate: Candidate,
    tensors: Mapping[str, Info],
    family: Family,
    surveyed: bool,
    scope: Scope,
    fact: str | None,
    groups: tuple[int, int],
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    lengths: tuple[int | None, int | None],
) -> Layout:
    """The one reading that shapes, the fact given, the family's row and the names leave; else an error.

    Raises `Undecided` where two are left, CheckpointError where none is.
    """
    both = readings(*shapes, candidate.V is not None, groups)
    if both.out_in is None and both.in_out is None:
        raise CheckpointError(
            f"{candidate.W1} and {candidate.W2} must have shapes (d_ff, d_model) and (d_model, d_ff), or both the "
            f"other way round, got {shapes[0]} and {shapes[1]}; the checkpoint is damaged or is no plain network"
        )
    allowed = [r for r in both if r is not None and _biases_allow(r, *lengths)]
    if not allowed:
        raise CheckpointError(
            f"the biases of {candidate.W1} and {candidate.W2} must have their outputs' lengths, got {lengths[0]} and "
            f"{lengths[1]} for matrices {shapes[0]} and {shapes[1]}"
        )
    if fact is not None:
        for reading in allowed:
            if reading.out_first == (fact == "out_in"):
                return reading._replace(reason="layout: given")
        raise CheckpointError(
            f"layout={fact!r} contradicts the shapes of {candidate.W1}, {shapes[0]}, and {candidate.W2}, {shapes[1]}; "
            f"leave it out or give the other one"
        )
    if len(allowed) == 1:
        return allowed[0]._replace(reason="layout: by the shapes")
    if tensors[candidate.W1].linear or tensors[candidate.W2].linear:
        return _pick(allowed, True, "layout: out_in, as its format stores every linear layer")
    if family.layout is not None:
        return _pick(allowed, family.layout == "out_in", f"layout: {family.layout}, of the family")
    if candidate.suffix == ".kernel":
        return _pick(allowed, False, "layout: in_out, as kernels are")
    square = shapes[0][0] == shapes[0][1]
    if surveyed or (candidate.pattern.sure and candidate.suffix == ".weight"):
        why = "the family was surveyed" if surveyed else "the names are only ever Linear's"
        return _pick(allowed, True, f"layout: out_in, {why}")
    widths = [scope.get(key) for key in _WIDTH_KEYS]
    fitting = [r for r in allowed if r.d_model in widths]
    if not square and len(fitting) == 1:
        return fitting[0]._replace(reason="layout: by the width that the config gives")
    raise Undecided(
        f"{candidate.W1} {shapes[0]} and {candidate.W2} {shapes[1]} can be read both ways, and model type "
        f"{scope.model_types[0] if scope.model_types else 'none'!r} is not known; "
        f'pass layout="out_in" (as torch.nn.Linear stores it) or layout="in_out"',
        "layout",
    )


def _pick(allowed: list[Layout], out_first: bool, reason: str) -> Layout:
    """The reading of that kind."""
    return next(r for r in allowed if r.out_first == out_first)._replace(reason=reason)


def decide_gate(
    candidate: Candidate,
    family: Family,
    surveyed: bool,
    scope: Scope,
    fact: str | None,
) -> tuple[tuple[str, str], str]:
    """The halves (gate, linear) of a fused matrix, and why; `Undecided` for a family that is not known."""
    halves = {"first": ("first", "second"), "second": ("second", "first"), "interleaved": ("even", "odd")}
    if fact is not None:
        return halves[fact], "gate: given"
    if family.gate is not None:
        return halves[family.gate], f"gate: {family.gate}, of the family"
    if surveyed:
        order = candidate.pattern.order
        return halves[order], f"gate: {order}, the family was surveyed"
    raise Undecided(
        f"{candidate.W1} holds the gate and the linear branch in one matrix, in an order that model type "
        f"{scope.model_types[0] if scope.model_types else 'none'!r} does not tell; "
        'pass gate="first", gate="second" or gate="interleaved"',
        "gate",
    )
