"""What the mixtures of all frameworks have in common: which parameters, and what is checked."""

from typing import NamedTuple

from portable_ffn._arrays.errors import refusal
from portable_ffn._arrays.typing import Activation
from portable_ffn._network.weights import Weights
from portable_ffn.adapters._module import check_settings, shapes
from portable_ffn.experts import Routing

Shape = tuple[int, ...] | None


class ExpertShapes(NamedTuple):
    """The shape of each parameter of a mixture, None for what it lacks."""

    router: tuple[Shape, Shape, Shape]
    experts: Weights
    shared: Weights | None
    shared_gate: Shape


def expert_shapes(
    d_model: int,
    d_ff: int | None,
    num_experts: int,
    routing: Routing,
    activation: Activation,
    *,
    gated: bool,
    bias: bool,
    router_bias: bool,
    selection_bias: bool,
    shared_d_ff: int | None,
    shared_gate: bool,
) -> ExpertShapes:
    """The shapes; raises TypeError or ValueError for settings that can't be."""
    check_settings(activation, gated, 0.0)
    if not isinstance(routing, Routing):
        raise refusal(TypeError, "routing", f"must be a Routing, got {type(routing).__name__}")
    if isinstance(num_experts, bool) or not hasattr(num_experts, "__index__"):
        raise refusal(TypeError, "num_experts", f"must be an integer, got {num_experts!r}")
    if num_experts < routing.top_k:
        raise refusal(ValueError, "num_experts", f"must be top_k = {routing.top_k} or more, got {num_experts}")
    if shared_gate and shared_d_ff is None:
        raise refusal(ValueError, "shared_gate", "must come with shared_d_ff, the network that it gates")
    one = shapes(d_model, d_ff, gated, bias)
    each = (num_experts,)
    return ExpertShapes(
        ((d_model, num_experts), each if router_bias else None, each if selection_bias else None),
        Weights(*(None if shape is None else (*each, *shape) for shape in one)),
        None if shared_d_ff is None else shapes(d_model, shared_d_ff, gated, bias),
        (d_model, 1) if shared_gate else None,
    )
