"""The routing that a config says, by its family's row."""

from portable_ffn.checkpoint._config.router import Key, RouterRow, number_of, score_of, value_of
from portable_ffn.checkpoint._config.scope import Scope
from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.experts import Routing


def routing_of(row: RouterRow, scope: Scope, layer: int) -> tuple[Routing, str]:
    """The routing that the config says, and the rule that it stands for where that is another."""
    if row.softcap and scope.get(row.softcap):
        raise CheckpointError(f"{row.softcap} of {scope.label} must be 0: logits with a cap are not computed here")
    k = int(number_of(row.top_k, scope, layer))
    score = score_of(row, scope)
    rule = score if score in ("sigmoid_of_logits", "sparsemixer", "shared_sink") else ""
    scale = row.scale if isinstance(row.scale, float) else float(number_of(row.scale, scope))
    normalise = _normalises(row.normalise, scope)
    if score == "softmax_of_chosen":
        normalise = False
    groups = _groups(row, scope)
    try:
        routing = Routing(
            k,
            score=score if not rule else "softmax_of_chosen",  # type: ignore[arg-type]
            normalise=normalise,
            epsilon=row.epsilon if normalise else 0.0,
            scale=scale,
            groups=groups,  # type: ignore[arg-type]
            apply_to=row.apply_to,  # type: ignore[arg-type]
        )
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{scope.label} must say a routing that can be: {error}") from None
    return routing, rule


def _normalises(said: bool | Key, scope: Scope) -> bool:
    """Whether the weights are divided by their sum; DBRX's config names the norm, of which 1 is the sum."""
    if isinstance(said, bool):
        return said
    value = value_of(said, scope)
    if isinstance(value, bool) or value is None:
        return bool(value)
    if value != 1.0:
        raise CheckpointError(f"{said.names} of {scope.label} must be true, false, or 1, the sum; got {value!r}")
    return True


def _groups(row: RouterRow, scope: Scope) -> tuple[int, int, str] | None:
    """The groups, None where there is one of them."""
    if row.groups is None:
        return None
    if row.groups.method and scope.get(row.groups.method) != "group_limited_greedy":
        said = scope.get(row.groups.method)
        if said not in (None, "greedy"):
            raise CheckpointError(
                f"{row.groups.method} of {scope.label} must be greedy or group_limited_greedy, got {said!r}"
            )
        return None
    if value_of(row.groups.groups, scope) is None:
        return None
    if row.groups.value == "refused":
        raise CheckpointError(f"{scope.label} must have no groups of experts: this family's are not computed here")
    count, kept = int(number_of(row.groups.groups, scope)), int(number_of(row.groups.kept, scope))
    return None if count == 1 else (count, kept, row.groups.value)


def average_of(row: RouterRow, scope: Scope) -> float:
    """What multiplies the sum of the routed and the shared part."""
    if not row.average:
        return 1.0
    said = scope.get(row.average) or "average"
    if said not in ("average", "sum"):
        raise CheckpointError(f"{row.average} of {scope.label} must be average or sum, got {said!r}")
    return 0.5 if said == "average" else 1.0


def eps_of(scope: Scope) -> float:
    """The eps of an RMS normalisation of the block."""
    return float(number_of(Key("rms_norm_eps layer_norm_eps", 1e-6), scope))
