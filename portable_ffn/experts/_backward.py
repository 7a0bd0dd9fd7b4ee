"""The gradient of the mixture in functions of the standard: through the experts, the router and the shared network."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from portable_ffn._activations.exponential import d_sigmoid, sigmoid, softplus
from portable_ffn._arrays.arguments import Call as Network
from portable_ffn._arrays.dtype import dtype_name
from portable_ffn._arrays.promotion import astype
from portable_ffn._arrays.typing import Array, DType, Namespace
from portable_ffn._network.generic import gradients, over_tokens, sum_of_tokens
from portable_ffn._network.weights import Weights
from portable_ffn.experts._arguments import Call
from portable_ffn.experts._choice import SQRT_SOFTPLUS_LOW, gathered, largest
from portable_ffn.experts._generic import Mixture, expert, in_scores_dtype, logits_of, network, of_expert, routed
from portable_ffn.experts._router import Router, Routing


class ExpertGradients(NamedTuple):
    """The gradients of the arguments of `feed_forward_experts`, None where the argument is None."""

    x: Array
    router: Router
    experts: Weights
    shared: Weights | None
    shared_gate: Array | None


def backward(call: Call, dy: Array, wide: DType) -> ExpertGradients:
    """All gradients in the dtype of the sums, or of the scores."""
    one, xp = call.library, call.library.xp
    weights, indices, places = routed(one, call.x, call.router, call.routing)
    x = astype(call.x, wide, xp)
    on_input = call.routing.apply_to == "input"
    given = Mixture(one, x, astype(weights, wide, xp), indices, places, call.experts, call.act, on_input, wide, wide)
    dx, dw, dexperts = _experts(given, dy)
    dshared = dgate = None
    if call.shared is not None:
        more, dshared, dgate = _shared(call, x, dy, wide)
        dx = dx + more
    scored, router = in_scores_dtype(one, call.x, call.router)
    logits = logits_of(scored, router, xp)
    dlogits = _of_logits(logits, weights, astype(dw, logits.dtype, xp), places, call.routing, xp)
    dx = dx + astype(xp.matmul(dlogits, router.W.T), wide, xp)
    drouter = Router(
        over_tokens(scored, dlogits, xp),
        None if router.b is None else sum_of_tokens(dlogits, xp),
        None if router.selection_bias is None else xp.zeros_like(router.selection_bias),
    )
    return ExpertGradients(dx, drouter, dexperts, dshared, dgate)


def _experts(given: Mixture, dy: Array) -> tuple[Array, Array, Weights]:
    """The gradients of x and of the weights (..., top_k) through the experts, and of the experts."""
    xp = given.library.xp
    dx, rounds, found = None, [None] * len(given.places), []
    for e in range(given.experts.W1.shape[0]):
        chosen, weight = of_expert(given, e)
        weights = expert(given.experts, e, given.wide, xp)
        inside = xp.where(chosen, weight * given.x if given.on_input else given.x, 0.0)
        dout = xp.where(chosen, dy if given.on_input else weight * dy, 0.0)
        dinside, *dweights = gradients(_network(given, (inside, *weights), given.wide), dout)
        felt = dinside * given.x if given.on_input else network(inside, weights, given.act, xp) * dy
        dweight = xp.sum(felt, axis=-1, keepdims=True)
        part = xp.where(chosen, weight * dinside if given.on_input else dinside, 0.0)
        dx = part if dx is None else dx + part
        for r, place in enumerate(given.places):
            own = xp.where(place[..., e : e + 1], dweight, 0.0)
            rounds[r] = own if rounds[r] is None else rounds[r] + own
        # A NaN among the weights of an expert that nobody chose stays out of its gradient.
        used = xp.any(chosen)
        found.append([None if d is None else xp.where(used, d, 0.0) for d in dweights])
    stacked = (None if ds[0] is None else xp.stack(list(ds)) for ds in zip(*found, strict=True))
    return dx, xp.concat(rounds, axis=-1), Weights(*stacked)


def _shared(call: Call, x: Array, dy: Array, wide: DType) -> tuple[Array, Weights, Array | None]:
    """The gradients of x, the shared network and its gate, through that network."""
    one, xp = call.library, call.library.xp
    weights = [None if a is None else astype(a, wide, xp) for a in call.shared or ()]
    if call.shared_gate is None:
        dx, *found = gradients(_network(call, (x, *weights), wide), dy)
        return dx, Weights(*found), None
    scored, gate = in_scores_dtype(one, call.x, Router(call.shared_gate))
    z = xp.matmul(scored, gate.W)
    out = network(x, Weights(*weights), call.act, xp)
    dx, *found = gradients(_network(call, (x, *weights), wide), dy * astype(sigmoid(z, xp), wide, xp))
    dz = astype(xp.sum(out * dy, axis=-1, keepdims=True), z.dtype, xp) * d_sigmoid(z, xp)
    return dx + astype(xp.matmul(dz, gate.W.T), wide, xp), Weights(*found), over_tokens(scored, dz, xp)


def _network(given: Mixture | Call, arrays: tuple[Any, ...], wide: DType) -> Network:
    """One of the networks, computed in the dtype of the sums."""
    return Network(given.library, arrays, given.act, dtype_name(wide), wide)


def _of_logits(
    logits: Array, weights: Array, dw: Array, places: Sequence[Array], routing: Routing, xp: Namespace
) -> Array:
    """The gradient of the logits, given that of the weights: by way of the logarithms of the scores."""
    chosen = gathered(logits, list(places), xp)
    dlog = weights * dw
    if routing.normalise:
        share = weights / routing.scale if routing.scale else weights
        dlog = dlog - share * xp.sum(dlog, axis=-1, keepdims=True)
    if routing.score == "sigmoid":
        dlog = dlog * sigmoid(-chosen, xp)
    elif routing.score == "sqrt_softplus":
        low = chosen <= SQRT_SOFTPLUS_LOW
        above = xp.where(low, SQRT_SOFTPLUS_LOW, chosen)
        dlog = dlog * xp.where(low, 0.5, 0.5 * sigmoid(above, xp) / softplus(above, xp))
    elif routing.score == "softmax_of_chosen":
        e = xp.exp(chosen - largest(chosen, xp))
        dlog = dlog - e / xp.sum(e, axis=-1, keepdims=True) * xp.sum(dlog, axis=-1, keepdims=True)
    d: Array = None
    for r, place in enumerate(places):
        own = xp.where(place, dlog[..., r : r + 1], 0.0)
        d = own if d is None else d + own
    if routing.score == "softmax":
        e = xp.exp(logits - largest(logits, xp))
        d = d - e / xp.sum(e, axis=-1, keepdims=True) * xp.sum(dlog, axis=-1, keepdims=True)
    return d
