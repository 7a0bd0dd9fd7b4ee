"""A loaded mixture of experts: the router, the experts and all that the model's own block does beside them."""

from dataclasses import dataclass, replace
from typing import Any

from portable_ffn import Weights, hidden
from portable_ffn._arrays.library import namespace
from portable_ffn._arrays.promotion import add, astype
from portable_ffn._arrays.typing import Array, DType
from portable_ffn._transfer.move import move
from portable_ffn.checkpoint._loaded.network import Network, Norm
from portable_ffn.checkpoint._loaded.sparsemixer import sparsemixer
from portable_ffn.experts import Router, Routing, feed_forward_experts, route


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """x W + b, and the normalisation of that where there is one."""

    W: Array
    b: Array | None = None
    norm: Norm | None = None

    def __call__(self, x: Array) -> Array:
        """Of x."""
        y = hidden(x, self.W, self.b, activation="identity")
        return y if self.norm is None else self.norm(y)

    def to(self, **there: Any) -> "Linear":
        """In another library."""
        norm = None if self.norm is None else self.norm.to(**there)
        return Linear(_there(self.W, there), _there(self.b, there), norm)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Experts:
    """A mixture of experts as its model has it.

    Attributes
    ----------
    router : portable_ffn.experts.Router
    routing : portable_ffn.experts.Routing
    networks : tuple of Network
        The experts; beyond them the router may choose `identities` that return their token.
    experts : Weights or None
        The experts' arrays with a leading axis, where they are plain networks.
    shared : Network or None
        What every token goes through; `shared_gate` (d_model, 1) as in `feed_forward_experts`.
    rule : str
        "" for what `route` does; "sigmoid_of_logits", "sparsemixer" and "shared_sink" weight in their own way.
    """

    router: Router
    routing: Routing
    networks: tuple[Network, ...]
    experts: Weights | None = None
    shared: Network | None = None
    shared_gate: Array | None = None
    rule: str = ""
    jitter: float = 0.0
    identities: int = 0
    inward: Linear | None = None
    outward: Linear | None = None
    bias: Array | None = None
    after: Norm | None = None
    scale: float = 1.0
    form: str = "experts"

    def __repr__(self) -> str:
        """In a line: what it computes, no number of an array."""
        own = [f"{self.form}", f"E={len(self.networks)}", repr(self.routing), f"expert={self.networks[0]!r}"]
        own += [name for name in ("shared", "shared_gate", "inward", "outward") if getattr(self, name) is not None]
        return f"Experts({', '.join(own)})"

    @property
    def activation(self) -> Any:
        """That of the experts."""
        return self.networks[0].activation

    def __call__(self, x: Array) -> Array:
        """What the model's own block returns for x of shape (..., d_model), in evaluation."""
        shared = self.shared
        if self._plain() and (shared is None or (shared.plain and shared.activation == self.activation)):
            assert self.experts is not None
            y = feed_forward_experts(
                x,
                self.router,
                self.experts,
                routing=self.routing,
                activation=self.activation,
                shared=None if shared is None else shared.weights,
                shared_gate=self.shared_gate,
            )
        elif self.rule == "shared_sink":
            y = self._with_sink(x)
        else:
            y = self._in_parts(x, *self.route(x))
            if shared is not None:
                z = shared(x)
                y = add(
                    y, z if self.shared_gate is None else z * hidden(x, self.shared_gate, None, activation="sigmoid")
                )
        y = y if self.bias is None else add(y, self.bias)
        y = y if self.after is None else self.after(y)
        return y if self.scale == 1.0 else y * self.scale

    def route(self, x: Array) -> tuple[Array, Array]:
        """The weights and the indices of the experts that each token is given, (..., top_k)."""
        if self.rule == "sparsemixer":
            return sparsemixer(hidden(x, self.router.W, self.router.b, activation="identity"), self.jitter)
        weights, indices = route(x, self.router, self.routing)
        if self.rule != "sigmoid_of_logits":
            return weights, indices
        xp = namespace(x)
        scores = hidden(x, self.router.W, self.router.b, activation="sigmoid")
        rounds = [indices[..., r : r + 1] for r in range(self.routing.top_k)]
        own = xp.concat([self._at(scores, index, xp) for index in rounds], axis=-1)
        return (own / xp.sum(own, axis=-1, keepdims=True) if self.routing.normalise else own), indices

    def to(self, *, like: Array | None = None, dtype: DType | None = None, device: Any = None) -> "Experts":
        """The same in another library, dtype or on another device, as `Weights.to` says."""
        there: dict[str, Any] = {"like": like, "dtype": dtype, "device": device}
        moved: dict[str, Any] = {
            name: None if part is None else part.to(**there)
            for name, part in (
                (name, getattr(self, name)) for name in ("experts", "shared", "inward", "outward", "after")
            )
        }
        experts = moved["experts"]
        networks = tuple(
            net.to(**there) if experts is None else replace(net, weights=_one(experts, e))
            for e, net in enumerate(self.networks)
        )
        router = Router(*(_there(array, there) for array in self.router))
        gate, bias = _there(self.shared_gate, there), _there(self.bias, there)
        moved |= {"router": router, "networks": networks, "shared_gate": gate, "bias": bias}
        return replace(self, **moved)

    def _plain(self) -> bool:
        """Whether `feed_forward_experts` computes the experts' sum."""
        return not self.rule and self.experts is not None and not self.identities and self.inward is None

    def _with_sink(self, x: Array) -> Array:
        """The sum with the shared expert's, whose weight is one more of those that are divided by their sum."""
        xp, E = namespace(x), len(self.networks)
        W = self.router.W
        routing = Routing(self.routing.top_k, score="sigmoid")
        _, indices = route(x, Router(W[:, :E], None, self.router.selection_bias), routing)
        scores = hidden(x, W, None, activation="sigmoid")
        rounds = [self._at(scores, indices[..., r : r + 1], xp) for r in range(routing.top_k)]
        own = xp.concat([*rounds, scores[..., E:]], axis=-1)
        weights = own / xp.sum(own, axis=-1, keepdims=True) * self.routing.scale
        y = self._in_parts(x, weights[..., : routing.top_k], indices)
        assert self.shared is not None
        return add(y, self.shared(x) * weights[..., routing.top_k :])

    def _in_parts(self, x: Array, weights: Array, indices: Array) -> Array:
        """The experts' sum, one network after the other, each token's own part of it."""
        xp = namespace(x)
        inside = x if self.inward is None else self.inward(x)
        total = None
        on_input = self.routing.apply_to == "input"
        for e in range(len(self.networks) + self.identities):
            weight, chosen = self._share(weights, indices, e, xp)
            given = inside * astype(weight, inside.dtype, xp) if on_input else inside
            y = self.networks[e](given) if e < len(self.networks) else given
            y = xp.where(chosen, y if on_input else y * astype(weight, y.dtype, xp), 0.0)
            total = y if total is None else add(total, y)
        return total if self.outward is None else self.outward(total)

    def _share(self, weights: Array, indices: Array, e: int, xp: Any) -> tuple[Array, Array]:
        """The weight of one expert for each token, and whether it was chosen, (..., 1)."""
        mine = indices == e
        weight = xp.sum(xp.where(mine, weights, 0.0), axis=-1, keepdims=True)
        return weight, xp.any(mine, axis=-1, keepdims=True)

    def _at(self, scores: Array, index: Array, xp: Any) -> Array:
        """The scores at an index of each token, (..., 1)."""
        columns = [xp.where(index == e, scores[..., e : e + 1], 0.0) for e in range(scores.shape[-1])]
        return sum(columns[1:], columns[0])


def _one(experts: Weights, e: int) -> Weights:
    """The weights of one expert of a stack."""
    return Weights(*(None if a is None else a[e, ...] for a in experts))


def _there(array: Array | None, there: dict[str, Any]) -> Array | None:
    """An array in another library."""
    return None if array is None else move(array, **there)
