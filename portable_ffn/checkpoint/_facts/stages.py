"""What a network holds beside its matrices: normalisation, scales, low-rank additions, the activation's weights."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from portable_ffn.checkpoint._config.family import Family, Norm
from portable_ffn.checkpoint._config.scope import Scope
from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._facts.activation import ActivationChoice
from portable_ffn.checkpoint._layers.candidates import Candidate, Info, beside, is_network_path
from portable_ffn.checkpoint._layers.readings import Layout
from portable_ffn.checkpoint._layers.words import ACTIVATION_MODULES, BETWEEN, OUTSIDE
from portable_ffn.checkpoint._loaded.recipe import (
    BATCH_NORM_LEAVES,
    NORMS,
    BatchNorm,
    Divisor,
    Fold,
    LowRank,
    NormRecipe,
    Scale,
)

# What a config calls two kinds of normalisation; MobileBERT's "no_norm" is a scale and a shift.
_KINDS = {"layer_norm": "layer", "no_norm": "affine"}
_XIELU = ("alpha_p", "alpha_n", "beta", "eps")


@dataclass(slots=True)
class Stages:
    """The stages round the matrices, as a recipe takes them."""

    before: NormRecipe | None = None
    middle: NormRecipe | None = None
    after: NormRecipe | None = None
    after_residual: bool = False
    residual: bool = False
    scale: float = 1.0
    folds: list[Fold] = field(default_factory=list)
    learned: tuple[str, ...] = ()
    evidence: list[str] = field(default_factory=list)
    free_width: bool = False

    def fields(self) -> dict[str, Any]:
        """The fields of a recipe."""
        return {
            "before": self.before,
            "middle": self.middle,
            "after": self.after,
            "residual": self.residual,
            "after_residual": self.after_residual,
            "scale": self.scale,
            "folds": tuple(self.folds),
            "learned": self.learned,
        }


def decide_stages(
    candidate: Candidate,
    tensors: Mapping[str, Info],
    family: Family,
    scope: Scope,
    chosen: ActivationChoice,
    adapter: int | None,
    layout: Layout,
) -> Stages:
    """The stages that the family's row names, with the tensors that they read.

    Raises CheckpointError where a tensor or a number of the config is missing, or of another length.
    """
    prefix = candidate.parent + "." if candidate.parent else ""
    stages = Stages(residual=family.residual, after_residual=family.after_residual, free_width=family.free_width)
    for place in ("before", "middle", "after"):
        norm = getattr(family, place)
        if norm is not None:
            width = layout.d_ff if place == "middle" else layout.d_model
            setattr(stages, place, _norm(norm, prefix, tensors, scope, width))
            stages.evidence.append(f"inside: {norm.kind} normalisation {norm.name}".rstrip())
    if family.scale is not None:
        stages.scale = _needed(scope, family.scale)
    for target, leaf, after, eps in family.batch_norm:
        width = layout.d_ff if (target == "W2") != after else layout.d_model
        stem = prefix + leaf
        for name in BATCH_NORM_LEAVES:
            _vector(f"{stem}.{name}", tensors, width)
        stages.folds.append(BatchNorm(target, stem, _eps(eps, scope), after))
    for target, leaf in family.scales:
        _vector(prefix + leaf, tensors, layout.d_ff)
        stages.folds.append(Scale(target, _root_width(scope), prefix + leaf))
    for target, key, index in family.multipliers:
        stages.folds.append(Scale(target, _needed(scope, key, index)))
    if family.lora is not None and adapter is not None:
        stages.folds.append(_low_rank(f"{prefix}{family.lora}.{adapter}", tensors, layout))
    for module in ACTIVATION_MODULES:
        # AutoAWQ divides what the activation gives by these; its own word for them is that of a row of scales.
        key = f"{prefix}{module}.scales"
        if key in tensors and candidate.V is None and not layout.fused:
            _vector(key, tensors, layout.d_ff)
            stages.folds.append(Divisor(key))
            stages.evidence.append(f"inside: the hidden layer divided by {module}.scales")
    if chosen.learned:
        stages.learned = _learned(prefix, str(chosen.activation), tensors)
    return stages


def _needed(scope: Scope, key: str, index: int | None = None) -> float:
    """The config's number under a key, without which the layer can't be computed."""
    number = scope.number(key, index)
    if number is None:
        raise CheckpointError(f"{scope.label} must have {key}, a number inside the layer; it hasn't")
    return number


def _eps(eps: float | str, scope: Scope) -> float:
    """A number, or the config's number under that key."""
    number = _needed(scope, eps) if isinstance(eps, str) else eps
    if number < 0:
        raise CheckpointError(f"{eps} of {scope.label} must be zero or more, got {number}")
    return number


def _vector(name: str, tensors: Mapping[str, Info], width: int) -> None:
    """CheckpointError where a vector inside the layer is missing or of another length."""
    if name not in tensors:
        raise CheckpointError(f"{name} must be there, a part of this family's layer; it isn't")
    if tensors[name].shape != (width,):
        raise CheckpointError(f"{name} must have shape ({width},), got {tensors[name].shape}")


def _norm(norm: Norm, prefix: str, tensors: Mapping[str, Info], scope: Scope, width: int) -> NormRecipe:
    """A normalisation with its tensors."""
    kind: str | None = norm.kind
    if norm.kind not in NORMS:
        said = scope.get(norm.kind)
        kind = _KINDS.get(said) if isinstance(said, str) else None
        if kind is None:
            raise CheckpointError(f"{norm.kind} of {scope.label} must be one of {', '.join(_KINDS)}, got {said!r}")
    if not norm.name:
        return NormRecipe(str(kind), None, None, _eps(norm.eps, scope))
    gamma, beta = f"{prefix}{norm.name}.weight", f"{prefix}{norm.name}.bias"
    _vector(gamma, tensors, width)
    if beta in tensors:
        _vector(beta, tensors, width)
    return NormRecipe(str(kind), gamma, beta if beta in tensors else None, _eps(norm.eps, scope))


def _root_width(scope: Scope) -> float:
    """sqrt(d_model): nGPT's scale of the branches."""
    return math.sqrt(abs(_needed(scope, "hidden_size")))


def _low_rank(stem: str, tensors: Mapping[str, Info], layout: Layout) -> LowRank:
    """One low-rank addition: (rank, d_model) and (outputs of the whole matrix, rank)."""
    down, up = f"{stem}.0.weight", f"{stem}.1.weight"
    shapes = [tensors[key].shape if key in tensors else None for key in (down, up)]
    rank = shapes[0][0] if shapes[0] else 0
    wide = layout.d_ff * (2 if layout.fused else 1)
    if shapes != [(rank, layout.d_model), (wide, rank)]:
        raise CheckpointError(
            f"{down} and {up} must have shapes (rank, {layout.d_model}) and ({wide}, rank), got "
            f"{shapes[0]} and {shapes[1]}"
        )
    return LowRank(down, up)


def _learned(prefix: str, name: str, tensors: Mapping[str, Info]) -> tuple[str, ...]:
    """The names of the activation's own weights, in the order of its constructor."""
    leaves = ("weight",) if name == "prelu" else _XIELU
    for module in ACTIVATION_MODULES:
        keys = tuple(f"{prefix}{module}.{leaf}" for leaf in leaves)
        if all(key in tensors for key in keys):
            return keys
    raise CheckpointError(
        f"{prefix or 'the layer'} must hold the weights of its activation {name}, such as "
        f"{prefix}act.{leaves[0]}; it doesn't"
    )


def unexplained(
    candidate: Candidate,
    names: Sequence[str],
    read: frozenset[str],
    family: Family,
    is_expert: bool,
) -> list[str]:
    """Tensors under the network's own path that nothing reads, so that the network is more than was understood.

    Where the path is a whole layer's, only what lies in the matrices' own modules, or is known to lie between them,
    counts.
    """
    under = [name for name in beside(names, candidate.parent) if name not in read]
    start = len(candidate.parent) + 1 if candidate.parent else 0
    rest = [(name, name[start:].split(".")) for name in under]
    known = set(family.beside.split())
    if is_expert or any(part.startswith("expert") for _, parts in rest for part in parts):
        known |= OUTSIDE
    if is_network_path(candidate.parent):
        output_bias = ["bias"] if candidate.stacked else None
        return [
            name
            for name, parts in rest
            if not known & set(parts)
            and parts != output_bias
            and parts[-1] != "num_batches_tracked"
            and not parts[0].startswith("expert")
            and parts[0] != family.lora
        ]
    # A matrix's own module may hold more than the matrix: a scale of it, its norm, what adapts it.
    own = tuple(
        key.removesuffix(candidate.suffix) + "."
        for key in (candidate.W1, candidate.W2, candidate.V)
        if key and candidate.suffix and key.endswith(candidate.suffix)
    )
    return [name for name, parts in rest if parts[0] in BETWEEN or name.startswith(own)]
