"""What a mixture of experts is made of: its router, what else stands under its path, and how its routing is read."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portable_ffn.checkpoint._config.router import Key, RouterRow, number_of
from portable_ffn.checkpoint._config.routers import row_of
from portable_ffn.checkpoint._config.scope import Scope
from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._facts.routing import average_of, eps_of, routing_of
from portable_ffn.checkpoint._layers.candidates import Info, beside, is_network_path
from portable_ffn.checkpoint._loaded.recipe import NormRecipe
from portable_ffn.experts import Routing

# Where a router's matrix (E, d_model) stands under the block's path, most telling names first.
ROUTER_LEAVES = ("gate.wg", "router.layer", "router.classifier", "router.gate", "router", "gate", "ffn_gate_inp")
# What is added where experts are chosen; the last is llama.cpp's.
SELECTION_LEAVES = (
    "gate.e_score_correction_bias",
    "e_score_correction_bias",
    "router.e_score_correction_bias",
    "expert_bias",
    "router.expert_bias",
    "gate.expert_bias",
    "experts.e_score_correction_bias",
    "gate.moe_statics.e_score_correction_bias",
    "moe_statics.e_score_correction_bias",
    "gate.bias",
    "exp_probs_b.bias",
)
GATE_LEAVES = ("shared_expert_gate.weight", "ffn_gate_inp_shexp.weight")
_NUMBERED = re.compile(r"experts\.(expert_)?\d+\.")
# Routers that hold more than a matrix, by a tensor that only they have.
_REFUSED = {
    "tid2eid": "experts chosen by a table of token ids (hash routing), which x alone can't be routed by",
    "non_linear": "a router that is a network with a state carried from layer to layer",
    "per_expert_scale": "a router with a normalisation and scales of its own, which sees another x than the experts",
}


@dataclass(frozen=True, slots=True)
class BlockRecipe:
    """The tensors of a block beside its networks, and how it routes."""

    W: str
    b: str | None
    selection_bias: str | None
    routing: Routing
    rule: str = ""
    jitter: float = 0.0
    logits: float = 1.0
    shared_gate: str | None = None
    inward: tuple[str, str | None, NormRecipe | None] | None = None
    outward: tuple[str, str | None] | None = None
    bias: str | None = None
    after: NormRecipe | None = None
    scale: float = 1.0
    identities: int = 0
    factor: str | None = None
    evidence: str = ""

    def read(self) -> tuple[str, ...]:
        """The tensors that it reads."""
        found = [self.W, self.b, self.selection_bias, self.shared_gate, self.bias, self.factor]
        if self.inward is not None:
            found += self.inward[:2]
            found.append(None if self.inward[2] is None else self.inward[2].gamma)
        if self.outward is not None:
            found += self.outward
        if self.after is not None:
            found.append(self.after.gamma)
        return tuple(key for key in found if key)


def decide_block(
    path: str,
    read: frozenset[str],
    tensors: Mapping[str, Info],
    names: Sequence[str],
    scope: Scope,
    experts: int,
    layer: int,
    has_shared: bool,
) -> BlockRecipe:
    """The recipe of the block under `path`, of which `read` are its networks' tensors; CheckpointError for others."""
    prefix = path + "." if path else ""
    own = {name[len(prefix) :] for name in beside(names, path) if name not in read}
    for word, why in _REFUSED.items():
        if any(word in leaf.split(".") for leaf in own):
            raise CheckpointError(
                f"{path} must have a router that is a matrix, and it has {why}; expert= loads one of them"
            )
    row = row_of(scope)
    if row is None:
        model = scope.model_types[0] if scope.model_types else "an unknown model"
        raise CheckpointError(
            f"{path} must be a mixture whose routing is known, and that of {model} is not; expert= loads one of them"
        )
    stem = next((s for s in ROUTER_LEAVES if f"{s}.weight" in own), None)
    if stem is None:
        raise CheckpointError(f"{path} must hold its router, and none is found under it; expert= loads one of them")
    shape = tensors[f"{prefix}{stem}.weight"].shape
    if len(shape) != 2 or shape[0] < experts:
        raise CheckpointError(f"{prefix}{stem}.weight must have shape ({experts}, d_model), got {shape}")
    # Inkling's router has a row for its shared expert too.
    identities = shape[0] - experts - (row.score == "shared_sink" and has_shared)
    if identities and identities != scope.get("zero_expert_num"):
        raise CheckpointError(
            f"{prefix}{stem}.weight must have a row for each of the {experts} experts, got {shape[0]} rows"
        )
    bias = f"{stem}.bias" if f"{stem}.bias" in own and not (stem == "gate" and _selects(row)) else None
    selects = _selection(prefix, own - {bias or ""}, tensors)
    if selects is None and row.selects and scope.get("use_expert_bias") is not False:
        raise CheckpointError(
            f"{path} must hold the bias that selects experts, and none is found; expert= loads one of them"
        )
    gate = next((leaf for leaf in GATE_LEAVES if leaf in own), None)
    inward, outward = _latent(row, prefix, own, scope)
    after = next((key for key in _norms_behind(row.after, prefix) if key in tensors), None)
    if row.after and after is None:
        raise CheckpointError(f"{path} must have its {row.after}, and none is found; expert= loads one of the experts")
    routing, rule = routing_of(row, scope, layer)
    recipe = BlockRecipe(
        f"{prefix}{stem}.weight",
        f"{prefix}{bias}" if bias and not row.ignores_bias else None,
        selects,
        routing,
        rule,
        number_of(row.jitter, scope) if row.jitter else 0.0,
        number_of(row.logits, scope) if row.logits else 1.0,
        f"{prefix}{gate}" if gate else None,
        inward,
        outward,
        f"{prefix}bias" if "bias" in own else None,
        NormRecipe("rms", after, None, eps_of(scope)) if after else None,
        average_of(row, scope) if has_shared else 1.0,
        identities,
        f"{prefix}gate.global_scale" if "gate.global_scale" in own else None,
        f"router: {stem}.weight, {routing}",
    )
    known = set(recipe.read()) | {f"{prefix}{bias}"}
    left = [leaf for leaf in sorted(own) if f"{prefix}{leaf}" not in known and not _counted(leaf)]
    if left and is_network_path(path):
        raise CheckpointError(f"{path} must hold a mixture that is understood, and it also holds {', '.join(left[:3])}")
    return recipe


def _selection(prefix: str, own: set[str], tensors: Mapping[str, Info]) -> str | None:
    """The tensor that is added where experts are chosen: under the block's path, or (Kolibri) beside it."""
    found = next((leaf for leaf in SELECTION_LEAVES if leaf in own), None)
    if found is not None:
        return prefix + found
    parent = prefix.rstrip(".").rpartition(".")[0]
    beside = f"{parent}.moe.router.expert_bias"
    return beside if beside in tensors else None


def _norms_behind(name: str, prefix: str) -> tuple[str, ...]:
    """Where the normalisation of the whole sum may stand: under the block's path, or beside it in the layer."""
    parent = prefix.rstrip(".").rpartition(".")[0]
    return (f"{prefix}{name}.weight", f"{parent}.{name}.weight") if name else ()


def _counted(leaf: str) -> bool:
    """Whether a tensor is a count that training keeps, or belongs to an expert past those that the config counts."""
    return _NUMBERED.match(leaf) is not None or leaf.endswith(("tokens_per_expert", "num_batches_tracked"))


def _selects(row: RouterRow) -> bool:
    """Whether a bias beside the router's matrix is one that selects: DeepSeek's own files call it gate.bias."""
    return row.score in ("sigmoid", "shared_sink") or isinstance(row.score, Key)


def _latent(
    row: RouterRow, prefix: str, own: set[str], scope: Scope
) -> tuple[tuple[str, str | None, NormRecipe | None] | None, tuple[str, str | None] | None]:
    """The projections before and behind the experts, where the family has them and the file holds them."""
    if row.latent is None or f"{row.latent[0]}.weight" not in own:
        return None, None
    first, norm, last = row.latent

    def bias(stem: str) -> str | None:
        return f"{prefix}{stem}.bias" if f"{stem}.bias" in own else None

    recipe: Any = NormRecipe("rms1p", f"{prefix}{norm}.weight", None, eps_of(scope)) if norm else None
    return (f"{prefix}{first}.weight", bias(first), recipe), (f"{prefix}{last}.weight", bias(last))
