"""The mixture of experts as a `torch.nn.Module`."""

import math
from typing import Any

import torch

from portable_ffn._arrays.typing import Activation
from portable_ffn._network.weights import Weights
from portable_ffn.adapters._experts import expert_shapes
from portable_ffn.experts import Router, Routing, feed_forward_experts


class Experts(torch.nn.Module):
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
        With b of the logits; with what is added where experts are chosen, a buffer that is not trained.
    shared_d_ff : int, optional
        The hidden width of a network that every token goes through.
    shared_gate : bool
        Whether its output is multiplied by sigmoid(x shared_gate).
    device, dtype
        As of `torch.nn.Linear`.

    Attributes
    ----------
    router_W, router_b, selection_bias, W1, b1, W2, b2, V, c, shared_W1 ..., shared_gate
        The parameters, with the shapes of `feed_forward_experts`; the keys of the state_dict.

    Raises
    ------
    TypeError, ValueError
        For settings that can't be, as `FeedForward` does; for fewer experts than top_k.

    References
    ----------
    Shazeer et al. 2017, Outrageously Large Neural Networks, section 2.
    """

    router_W: torch.nn.Parameter
    router_b: torch.nn.Parameter | None
    selection_bias: torch.Tensor | None
    W1: torch.nn.Parameter
    b1: torch.nn.Parameter | None
    W2: torch.nn.Parameter
    b2: torch.nn.Parameter | None
    V: torch.nn.Parameter | None
    c: torch.nn.Parameter | None
    shared_W1: torch.nn.Parameter | None
    shared_gate: torch.nn.Parameter | None

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
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        wanted = expert_shapes(
            d_model, d_ff, num_experts, routing, activation, gated=gated, bias=bias, router_bias=router_bias,
            selection_bias=selection_bias, shared_d_ff=shared_d_ff, shared_gate=shared_gate,
        )  # fmt: skip
        self.routing, self.activation = routing, activation

        def empty(shape: Any) -> torch.Tensor | None:
            return None if shape is None else torch.empty(shape, device=device, dtype=dtype)

        shared = None if wanted.shared is None else Weights(*map(empty, wanted.shared))
        router = Router(*map(empty, wanted.router))
        self._hold(router, Weights(*map(empty, wanted.experts)), shared, empty(wanted.shared_gate))
        self.reset_parameters()

    @classmethod
    def from_weights(
        cls,
        router: Router,
        experts: Weights,
        *,
        routing: Routing,
        activation: Activation = "silu",
        shared: Weights | None = None,
        shared_gate: Any = None,
    ) -> "Experts":
        """A module with a copy of these arrays, of any library."""
        module = cls(1, 1, routing.top_k, routing=routing, activation=activation, gated=experts.gated, device="meta")

        def copied(array: Any) -> Any:
            if array is None:
                return None
            like = None if isinstance(array, torch.Tensor) else torch.empty(0, dtype=torch.bool)
            return Weights(array, None, array, None).to(like=like).W1.detach().clone()

        own = None if shared is None else Weights(*map(copied, shared))
        module._hold(Router(*map(copied, router)), Weights(*map(copied, experts)), own, copied(shared_gate))
        return module

    def _hold(self, router: Router, experts: Weights, shared: Weights | None, gate: Any) -> None:
        """Register these tensors; what selects is a buffer."""
        held = {"router_W": router.W, "router_b": router.b, **experts._asdict()}
        held |= {f"shared_{name}": tensor for name, tensor in (shared or Weights(*[None] * 6))._asdict().items()}
        held["shared_gate"] = gate
        for name, tensor in held.items():
            self.register_parameter(name, None if tensor is None else torch.nn.Parameter(tensor))
        self.register_buffer("selection_bias", router.selection_bias)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise again: uniform in (-1/sqrt(fan_in), 1/sqrt(fan_in)), biases too; what selects is 0."""
        fan_in = {"W2": "b2", "shared_W2": "shared_b2"}
        for name, tensor in self.named_parameters():
            weight = name
            if tensor.dim() < 2 or name in ("b1", "b2", "c"):
                of = {bias: matrix for matrix, bias in fan_in.items()}
                weight = of.get(name, "router_W" if name == "router_b" else "shared_W1" if "shared" in name else "W1")
            bound = 1 / math.sqrt(max(1, getattr(self, weight).shape[-2]))
            torch.nn.init.uniform_(tensor, -bound, bound)
        if self.selection_bias is not None:
            self.selection_bias.zero_()

    @property
    def router(self) -> Router:
        """The router's tensors themselves."""
        return Router(self.router_W, self.router_b, self.selection_bias)

    @property
    def weights(self) -> Weights:
        """The experts' tensors themselves, with a leading axis of experts."""
        return Weights(self.W1, self.b1, self.W2, self.b2, self.V, self.c)

    @property
    def shared(self) -> Weights | None:
        """The shared network's tensors themselves."""
        if self.shared_W1 is None:
            return None
        return Weights(*(getattr(self, f"shared_{name}") for name in Weights._fields))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The mixture on x of shape (..., d_model)."""
        y: torch.Tensor = feed_forward_experts(
            x,
            self.router,
            self.weights,
            routing=self.routing,
            activation=self.activation,
            shared=self.shared,
            shared_gate=self.shared_gate,
        )
        return y

    def extra_repr(self) -> str:
        """The settings in a line."""
        experts, d_model, d_ff = self.W1.shape
        return f"d_model={d_model}, d_ff={d_ff}, num_experts={experts}, {self.routing}, activation={self.activation!r}"
