"""The mixture of experts: a router that chooses a few networks for each position, on arrays of any library.

    router = Router(W)                                            # W (d_model, E)
    routing = Routing(2, normalise=True)                          # softmax, two experts a token, weights that sum to 1
    y = feed_forward_experts(x, router, experts, routing=routing, activation="silu")

`experts` is a `Weights` whose arrays have a leading axis of E experts. Importing this loads no array library.
"""

from portable_ffn.experts._backward import ExpertGradients
from portable_ffn.experts._gradient import feed_forward_experts_vjp
from portable_ffn.experts._layer import feed_forward_experts, route
from portable_ffn.experts._router import Router, Routing

__all__ = ["ExpertGradients", "Router", "Routing", "feed_forward_experts", "feed_forward_experts_vjp", "route"]


def __dir__() -> list[str]:
    return __all__
