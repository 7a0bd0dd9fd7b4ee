"""What a network holds beside its matrices: normalisation, scales, low-rank additions, the activation's weights."""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from portable_ffn.checkpoint._candidates import Candidate, Info, is_network_path
from portable_ffn.checkpoint._choose import Chosen
from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._families import Norm, Otherwise
from portable_ffn.checkpoint._patterns import ACTIVATION_MODULES, BETWEEN, OUTSIDE
from portable_ffn.checkpoint._recipe import NORMS, BatchNorm, Fold, LowRank, NormRecipe, Scale
from portable_ffn.checkpoint._scope import Scope

# What a config calls two kinds of normalisation; MobileBERT's "no_norm" is a scale and a shift.
_KINDS = {"layer_norm": "layer", "no_norm": "affine"}
_XIELU = ("alpha_p", "alpha_n", "beta", "eps")


@dataclass(slots=True)
class Inside:
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

    def stages(self) -> dict[str, Any]:
        """The fields of a recipe."""
        return {"before": self.before, "middle": self.middle, "after": self.after, "residual": self.residual,
                "after_residual": self.after_residual, "scale": self.scale, "folds": tuple(self.folds),
                "learned": self.learned}


def beside(names: Sequence[str], parent: str) -> Sequence[str]:
    """Of sorted names, those under a path."""
    if not parent:
        return names
    prefix = parent + "."
    return names[bisect_left(names, prefix):bisect_left(names, parent + "/")]


def inside(
    found: Candidate, tensors: Mapping[str, Info], family: Otherwise, scope: Scope, chosen: Chosen,
    adapter: int | None,
) -> Inside:
    """The stages that the family's row names, with the tensors that they read."""
    prefix = found.parent + "." if found.parent else ""
    within = Inside(residual=family.residual, after_residual=family.after_residual, free_width=family.free_width)
    for place in ("before", "middle", "after"):
        norm = getattr(family, place)
        if norm is not None:
            recipe = _norm(norm, prefix, tensors, scope)
            if recipe is not None:
                setattr(within, place, recipe)
                within.evidence.append(f"{place} the product: {norm.kind} normalisation {norm.name}".rstrip())
    if within.after is None:
        within.after_residual = False
    if family.scale is not None:
        within.scale = float(scope.get(family.scale))
    for target, leaf, after, eps in family.batch_norm:
        if prefix + leaf + ".running_mean" in tensors:
            within.folds.append(BatchNorm(target, prefix + leaf, _eps(eps, scope), after))
    for target, leaf in family.scales:
        within.folds.append(Scale(target, _root_width(scope), prefix + leaf))
    for target, key, index in family.multipliers:
        number = scope.get(key)
        within.folds.append(Scale(target, float(number[index])))
    if family.lora is not None and adapter is not None:
        within.folds += _low_rank(prefix + family.lora, tensors, adapter)
    if chosen.learned:
        within.learned = _learned(prefix, str(chosen.activation), tensors)
    return within


def _eps(eps: float | str, scope: Scope) -> float:
    """A number, or the config's number under that key."""
    if not isinstance(eps, str):
        return float(eps)
    value = scope.get(eps)
    if not isinstance(value, int | float):
        raise CheckpointError(f"the config must have {eps}, the eps of a normalisation inside the layer; it hasn't")
    return float(value)


def _norm(norm: Norm, prefix: str, tensors: Mapping[str, Info], scope: Scope) -> NormRecipe | None:
    """A normalisation with its tensors; None where the checkpoint has it not."""
    kind = norm.kind if norm.kind in NORMS else _KINDS[scope.get(norm.kind)]
    if not norm.name:
        return NormRecipe(kind, None, None, _eps(norm.eps, scope))
    gamma, beta = f"{prefix}{norm.name}.weight", f"{prefix}{norm.name}.bias"
    if gamma not in tensors:
        return None
    return NormRecipe(kind, gamma, beta if beta in tensors else None, _eps(norm.eps, scope))


def _root_width(scope: Scope) -> float:
    """sqrt(d_model): nGPT's scale of the branches."""
    return math.sqrt(float(scope.get("hidden_size")))


def _low_rank(stem: str, tensors: Mapping[str, Info], adapter: int) -> list[Fold]:
    """The low-rank addition of this layer, one of a list that a shared block keeps."""
    down, up = f"{stem}.{adapter}.0.weight", f"{stem}.{adapter}.1.weight"
    return [LowRank(down, up)] if down in tensors and up in tensors else []


def adapters(stem: str, names: Sequence[str]) -> list[int]:
    """The numbers of the low-rank additions that a shared block keeps, one for each layer that uses it."""
    parts = (name[len(stem) + 1:].split(".")[0] for name in beside(names, stem))
    return sorted({int(part) for part in parts if part.isdigit()})


def _learned(prefix: str, name: str, tensors: Mapping[str, Info]) -> tuple[str, ...]:
    """The names of the activation's own weights, in the order of its constructor."""
    leaves = ("weight",) if name == "prelu" else _XIELU
    for module in ACTIVATION_MODULES:
        keys = tuple(f"{prefix}{module}.{leaf}" for leaf in leaves)
        if all(key in tensors for key in keys):
            return keys
    raise CheckpointError(f"{prefix or 'the layer'} must hold the weights of its activation {name}, such as "
                          f"{prefix}act.{leaves[0]}; it doesn't")


def unexplained(found: Candidate, names: Sequence[str], read: frozenset[str], family: Otherwise) -> list[str]:
    """Tensors under the network's own path that nothing reads, so that the network is more than was understood.

    Where the path is a whole layer's, only what is known to lie between the matrices counts.
    """
    under = [name for name in beside(names, found.parent) if name not in read]
    start = len(found.parent) + 1 if found.parent else 0
    rest = [(name, name[start:].split(".")) for name in under]
    known = OUTSIDE | set(family.beside.split())
    if is_network_path(found.parent):
        output_bias = ["bias"] if found.stacked else None
        return [name for name, parts in rest
                if not known & set(parts) and parts != output_bias and parts[-1] != "num_batches_tracked"
                and not parts[0].startswith("expert") and parts[0] != family.lora]
    return [name for name, parts in rest if parts[0] in BETWEEN]
