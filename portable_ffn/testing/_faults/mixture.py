"""What people get wrong in a mixture of experts, as values: each fault by a plain computation in float64."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from portable_ffn import Weights, feed_forward
from portable_ffn._activations.exponential import sigmoid
from portable_ffn._arrays.typing import Activation
from portable_ffn.experts import Router, Routing, route
from portable_ffn.testing._backends.held import numpy_dtype
from portable_ffn.testing._measure.compare import shares

TOKENS = 24
Array = Any


class Given:
    """The arrays of one mixture in float64, exactly what `dtype` holds."""

    def __init__(self, seed: int, d_model: int, d_ff: int, E: int, routing: Routing, dtype: str, **has: bool) -> None:
        rng = np.random.default_rng(seed)

        def some(*shape: int, scale: float = 1.0) -> Array:
            values = scale * rng.normal(size=shape) / np.sqrt(shape[-2] if len(shape) > 1 else 2)
            return values.astype(numpy_dtype(dtype)).astype(np.float64)

        def network(*lead: int) -> Weights:
            V, c = (some(*lead, d_model, d_ff), some(*lead, d_ff)) if has["gated"] else (None, None)
            W1, b1, W2, b2 = (
                some(*lead, d_model, d_ff),
                some(*lead, d_ff),
                some(*lead, d_ff, d_model),
                some(*lead, d_model),
            )
            return Weights(W1, b1, W2, b2, V, c) if has["bias"] else Weights(W1, None, W2, None, V, None)

        self.x = some(TOKENS, d_model, scale=np.sqrt(TOKENS))
        self.router = Router(some(d_model, E, scale=2.0), None, some(E, scale=0.4) if has["selection_bias"] else None)
        self.experts = network(E)
        self.shared = network() if has["shared"] or has["shared_gate"] else None
        self.gate = some(d_model, 1) if has["shared_gate"] else None
        self.routing = routing


def explained(values: Array, bound: Array, given: Given, activation: Activation) -> Iterator[str]:
    """The faults that give exactly these values."""
    for cause, y in faults(given, activation):
        if float(shares(values, y, bound).max(initial=0.0)) <= 1.0:
            yield cause


def faults(given: Given, activation: Activation) -> Iterator[tuple[str, Array]]:
    """What people get wrong in a mixture, each with the values that it gives."""
    routing, router, E = given.routing, given.router, given.experts.W1.shape[0]

    def other(**changes: Any) -> Array:
        return mixed(given, *route(given.x, router, replace(routing, **changes)), activation, routing.apply_to)

    swap = {"softmax": "softmax_of_chosen", "softmax_of_chosen": "softmax"}
    if routing.score in swap:
        told = "over the chosen experts alone" if routing.score == "softmax" else "over all experts"
        yield f"the softmax is taken {told}", other(score=swap[routing.score])
    told = "the weights are not divided by their sum" if routing.normalise else "the weights are divided by their sum"
    yield told, other(normalise=not routing.normalise)
    if routing.scale != 1.0:
        yield "the scale of the weights is left out", other(scale=1.0)
    if routing.groups is not None:
        n, best, kind = routing.groups
        if E // n > 1:
            swapped = "max" if kind == "top2_sum" else "top2_sum"
            yield f"groups are valued by {swapped} instead of {kind}", other(groups=(n, best, swapped))
        yield "the groups are left out", other(groups=None)
    for k in (routing.top_k - 1, routing.top_k + 1):
        if 1 <= k <= (E if routing.groups is None else E // routing.groups[0] * routing.groups[1]):
            yield f"top_k is {k} instead of {routing.top_k}", other(top_k=k)
    weights, indices = route(given.x, router, routing)
    side = "input" if routing.apply_to == "output" else "output"
    yield f"the weights multiply each expert's {side}", mixed(given, weights, indices, activation, side)
    yield "the experts stand in reverse order", mixed(given, weights, E - 1 - indices, activation, routing.apply_to)
    yield "each expert is the next one", mixed(given, weights, (indices + 1) % E, activation, routing.apply_to)
    yield (
        "tokens beyond an expert's capacity are dropped",
        mixed(given, np.where(_within(indices, E), weights, 0.0), indices, activation, routing.apply_to),
    )
    if router.selection_bias is not None:
        plain = route(given.x, router._replace(selection_bias=None), routing)
        yield "the selection bias is left out", mixed(given, *plain, activation, routing.apply_to)
        biased = weights + routing.scale * router.selection_bias[indices]
        if routing.normalise:
            scores = (
                route(given.x, router, replace(routing, normalise=False, scale=1.0))[0] + router.selection_bias[indices]
            )
            biased = routing.scale * scores / scores.sum(-1, keepdims=True)
        yield "the selection bias is in the weights", mixed(given, biased, indices, activation, routing.apply_to)
    if given.shared is not None:
        kept = given.shared, given.gate
        given.shared = None
        yield "the shared network is left out", mixed(given, weights, indices, activation, routing.apply_to)
        given.shared, given.gate = kept[0], None
        if kept[1] is not None:
            yield (
                "the gate of the shared network is left out",
                mixed(given, weights, indices, activation, routing.apply_to),
            )
        given.gate = kept[1]


def mixed(given: Given, weights: Array, indices: Array, activation: Activation, apply_to: str) -> Array:
    """The values that a choice and its weights give."""
    y = np.zeros_like(given.x)
    for e in range(given.experts.W1.shape[0]):
        weight = np.where(indices == e, weights, 0.0).sum(-1, keepdims=True)
        chosen = (indices == e).any(-1, keepdims=True)
        one = Weights(*(None if a is None else a[e] for a in given.experts))
        inside = weight * given.x if apply_to == "input" else given.x
        out = feed_forward(inside, *one, activation=activation)
        y += np.where(chosen, out if apply_to == "input" else weight * out, 0.0)
    if given.shared is not None:
        z = feed_forward(given.x, *given.shared, activation=activation)
        y += z if given.gate is None else sigmoid(given.x @ given.gate, np) * z
    return y


def _within(indices: Array, E: int) -> Array:
    """Which choices an expert takes that holds no more than its even share, in the order of the tokens."""
    capacity, taken = -(-indices.size // E), np.zeros(E, int)
    kept = np.zeros(indices.shape, bool)
    for place in np.ndindex(*indices.shape):
        kept[place] = taken[indices[place]] < capacity
        taken[indices[place]] += 1
    return kept
