"""What one row of the table of routers can say, and what a config makes of it; the table itself is in `routers`."""

from typing import Any, NamedTuple

from portable_ffn.checkpoint._config.scope import Scope
from portable_ffn.checkpoint._errors import CheckpointError

Default = int | float | bool | None


class Key(NamedTuple):
    """A number of the config: the names that it goes by, the first one found, and the class's default."""

    names: str
    default: Default = None


class Groups(NamedTuple):
    """Groups of experts: how many, how many are kept, and a group's value. `method` must be "group_limited_greedy"."""

    groups: Key
    kept: Key
    value: str = "top2_sum"
    method: str = ""


class RouterRow(NamedTuple):
    """One row, for `models` (model types).

    Attributes
    ----------
    score : a score of `Routing`, or the Key of a name that `SCORES` has; "sigmoid_of_logits" (chosen by logits + bias,
        weighted by their sigmoids), "sparsemixer", "shared_sink" (sigmoids divided by a sum that has the shared
        expert's too)
    normalise : whether the weights are divided by their sum, or the Key that says so
    scale : a factor on the weights
    logits : a factor on the logits
    average : the key that says whether the routed and the shared sum are added ("sum") or averaged ("average")
    latent : names of the projection before the experts, its RMS norm by 1 + gamma, and the projection behind them
    after : the name of an RMS normalisation of the whole sum
    jitter : how near to the largest logit SparseMixer looks
    softcap : the key of a cap of the logits; beyond 0 it is refused
    selects : whether a bias that selects belongs to the family: without it the block isn't understood
    ignores_bias : whether the code leaves the router's bias out
    """

    models: str
    top_k: Key = Key("num_experts_per_tok")
    score: str | Key = "softmax"
    normalise: bool | Key = True
    epsilon: float = 0.0
    scale: float | Key = 1.0
    groups: Groups | None = None
    apply_to: str = "output"
    logits: Key | None = None
    average: str = ""
    latent: tuple[str, str, str] | None = None
    after: str = ""
    jitter: Key | None = None
    softcap: str = ""
    ignores_bias: bool = False
    selects: bool = False


# What configs call scores; Cohere's sigmoid and softmax are of the chosen logits.
SCORES = {
    "softmax": "softmax_of_chosen",
    "sigmoid": "sigmoid",
    "sqrtsoftplus": "sqrt_softplus",
    "sqrt_softplus": "sqrt_softplus",
}
_DEFAULT_SCORES = {"deepseek_v4": "sqrt_softplus", "cohere2_moe": "softmax_of_chosen"}


def value_of(key: Key, scope: Scope) -> Any:
    """What the config, or the class's default, says."""
    nested = scope.get("ffn_config")
    found = scope.get(*key.names.split()) if key.names else None
    if found is None and isinstance(nested, dict):
        found = next((nested[name] for name in key.names.split() if nested.get(name) is not None), None)
    return key.default if found is None else found


def number_of(key: Key, scope: Scope, layer: int | None = None) -> float:
    """A number that the config says; CheckpointError for what is none, or where none is known."""
    value = value_of(key, scope)
    if isinstance(value, list) and layer is not None and layer < len(value):
        value = value[layer]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise CheckpointError(f"{scope.label} must have {key.names.split()[0]}, a number of the router; got {value!r}")
    return value


def score_of(row: RouterRow, scope: Scope) -> str:
    """The name of the score."""
    if isinstance(row.score, str):
        return row.score
    said = value_of(row.score, scope)
    if said is None:
        return _DEFAULT_SCORES.get(row.models, "sigmoid")
    found = SCORES.get(said) if isinstance(said, str) else None
    if found == "softmax_of_chosen" and row.models != "cohere2_moe":
        found = "softmax"
    if found is None:
        raise CheckpointError(f"{row.score.names} of {scope.label} must be one of {', '.join(SCORES)}, got {said!r}")
    return found
