"""The mixture of experts as an `equinox.Module`."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from portable_ffn._arrays.typing import Activation
from portable_ffn._network.weights import Weights
from portable_ffn.adapters._experts import expert_shapes
from portable_ffn.experts import Router, Routing, feed_forward_experts


class Experts(eqx.Module):
    """A router and the experts that it mixes, with a shared network where one is asked for.

    Parameters
    ----------
    d_model : int
    d_ff : int or None
        The experts' hidden width; None: as of `FeedForward`.
    num_experts : int
    routing : portable_ffn.experts.Routing
    activation : str, gate object or callable
    gated, bias : bool
        As of `FeedForward`, for the experts and the shared network.
    router_bias, selection_bias : bool
        With b of the logits; with what is added where experts are chosen.
    shared_d_ff : int, optional
        The hidden width of a network that every token goes through.
    shared_gate : bool
        Whether its output is multiplied by sigmoid(x shared_gate).
    dtype, key
        As of `eqx.nn.Linear`.

    Raises
    ------
    TypeError, ValueError
        For settings that can't be, as `FeedForward` does; for fewer experts than top_k.

    References
    ----------
    Shazeer et al. 2017, Outrageously Large Neural Networks, section 2.
    """

    router: Router
    weights: Weights
    shared: Weights | None
    shared_gate: jax.Array | None
    routing: Routing = eqx.field(static=True)
    activation: Activation

    def __init__(
        self,
        d_model: int,
        d_ff: int | None,
        num_experts: int,
        *,
        routing: Routing,
        activation: Activation = "silu",
        gated: bool = True,
        bias: bool = False,
        router_bias: bool = False,
        selection_bias: bool = False,
        shared_d_ff: int | None = None,
        shared_gate: bool = False,
        dtype: Any = None,
        key: jax.Array,
    ) -> None:
        wanted = expert_shapes(
            d_model, d_ff, num_experts, routing, activation, gated=gated, bias=bias, router_bias=router_bias,
            selection_bias=selection_bias, shared_d_ff=shared_d_ff, shared_gate=shared_gate,
        )  # fmt: skip
        self.routing, self.activation = routing, activation
        keys = iter(jax.random.split(key, 18))

        def drawn(shape: Any, fan_in: int) -> jax.Array | None:
            if shape is None:
                return None
            bound = max(1, fan_in) ** -0.5
            return jax.random.uniform(next(keys), shape, dtype or jnp.float32, -bound, bound)

        def network(of: Weights) -> Weights:
            inner = of.W1[-1]
            return Weights(*(drawn(s, inner if n in ("W2", "b2") else d_model) for n, s in of._asdict().items()))

        W, b, selects = wanted.router
        zeros = None if selects is None else jnp.zeros(selects, dtype or jnp.float32)
        self.router = Router(drawn(W, d_model), drawn(b, d_model), zeros)
        self.weights = network(wanted.experts)
        self.shared = None if wanted.shared is None else network(wanted.shared)
        self.shared_gate = drawn(wanted.shared_gate, d_model)

    def __call__(self, x: jax.Array, *, key: jax.Array | None = None) -> jax.Array:
        """The mixture on x of shape (..., d_model)."""
        router = self.router
        if router.selection_bias is not None:
            # What selects isn't trained by the gradient of the output.
            router = router._replace(selection_bias=jax.lax.stop_gradient(router.selection_bias))
        y: jax.Array = feed_forward_experts(
            x,
            router,
            self.weights,
            routing=self.routing,
            activation=self.activation,
            shared=self.shared,
            shared_gate=self.shared_gate,
        )
        return y
