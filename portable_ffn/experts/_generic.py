"""The mixture in functions of the standard. Read this first.

    logits = x W + b                                    in float32 at least
    indices, weights = the top_k experts of each token  (`_choice`)
    y = sum over the experts e of w_e f_e(x)            0 where e wasn't chosen
    y = y + sigmoid(x shared_gate) shared(x)

Here each expert sees all tokens, 0 in place of those that aren't its own: shapes are static and nothing branches on
data. A native path gathers the tokens instead.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from portable_ffn._activations.exponential import sigmoid
from portable_ffn._activations.resolve import Hidden
from portable_ffn._arrays.dtype import LOW_PRECISION
from portable_ffn._arrays.library import Library
from portable_ffn._arrays.promotion import astype, result_dtype
from portable_ffn._arrays.typing import Array, DType, Namespace
from portable_ffn._network.feed_forward import feed_forward
from portable_ffn._network.weights import Weights
from portable_ffn.experts._arguments import ROUTER_NAMES, Call
from portable_ffn.experts._choice import along_last, choose, weigh
from portable_ffn.experts._router import Router, Routing


class Mixture(NamedTuple):
    """What is to be mixed: x, and for each token its experts and their weights, (..., top_k).

    `dtype` is that of the experts' products, `wide` that of their sum, float32 at least.
    """

    library: Library
    x: Array
    weights: Array
    indices: Array
    places: list[Array]
    experts: Weights
    act: Hidden
    on_input: bool
    dtype: DType
    wide: DType


Mix = Callable[[Mixture], Array]


def block(call: Call, mix: Mix) -> Array:
    """The whole of it, the experts' sum by `mix`."""
    one, xp = call.library, call.library.xp
    weights, indices, places = routed(one, call.x, call.router, call.routing)
    computing = call.dtype if one.computing(call.name) == call.name else one.dtype(one.computing(call.name))
    wide = one.dtype("float32") if call.name in LOW_PRECISION else call.dtype
    on_input = call.routing.apply_to == "input"
    y = mix(
        Mixture(
            one, call.x, astype(weights, wide, xp), indices, places, call.experts, call.act, on_input, computing, wide
        )
    )
    if call.shared is not None:
        y = y + shared(call, wide)
    return astype(y, call.dtype, xp)


def routed(one: Library, x: Array, router: Router, routing: Routing) -> tuple[Array, Array, list[Array]]:
    """The weights in the dtype of the scores, the indices, and each round's place among all experts."""
    xp = one.xp
    x, router = in_scores_dtype(one, x, router)
    with _precisely(one, x):
        logits = logits_of(x, router, xp)
    indices, places = choose(logits, router, routing, xp)
    return weigh(logits, places, routing, xp), xp.concat(indices, axis=-1), places


def _precisely(one: Library, x: Array) -> AbstractContextManager[Any]:
    """A context in which PyTorch's autocast doesn't narrow the logits."""
    if one.name != "torch":
        return nullcontext()
    device = x.device.type
    if device not in ("cpu", "cuda") or not one.xp.is_autocast_enabled(device):
        return nullcontext()
    context: AbstractContextManager[Any] = one.xp.autocast(device, enabled=False)
    return context


def logits_of(x: Array, router: Router, xp: Namespace) -> Array:
    """The logits x W + b."""
    logits = xp.matmul(x, router.W)
    return logits if router.b is None else logits + along_last(router.b, logits, xp)


def in_scores_dtype(one: Library, x: Array, router: Router) -> tuple[Array, Router]:
    """x and the router in the dtype of the scores: the widest of theirs, float32 at least."""
    name, dtype = result_dtype(one, ROUTER_NAMES, (x, *router))
    scores = one.dtype("float32") if name in LOW_PRECISION else dtype
    return astype(x, scores, one.xp), Router(*(None if a is None else astype(a, scores, one.xp) for a in router))


def shared(call: Call, wide: DType) -> Array:
    """The shared network's output in float32 at least, times its gate."""
    one, xp = call.library, call.library.xp
    weights = Weights(*(None if a is None else astype(a, call.dtype, xp) for a in call.shared or ()))
    y = astype(feed_forward(astype(call.x, call.dtype, xp), *weights, activation=call.activation), wide, xp)
    if call.shared_gate is None:
        return y
    x, gate = in_scores_dtype(one, call.x, Router(call.shared_gate))
    return astype(sigmoid(xp.matmul(x, gate.W), xp), wide, xp) * y


def mix(given: Mixture) -> Array:
    """The experts' sum: each one computes all tokens."""
    xp = given.library.xp
    x = astype(given.x, given.dtype, xp)
    y = None
    for e in range(given.experts.W1.shape[0]):
        chosen, weight = of_expert(given, e)
        # Tokens of other experts are 0 here, so that a NaN among them reaches no gradient of this expert's.
        inside = xp.where(chosen, astype(weight, given.dtype, xp) * x if given.on_input else x, 0.0)
        out = astype(network(inside, expert(given.experts, e, given.dtype, xp), given.act, xp), given.wide, xp)
        # Masked after the product: what an expert makes of a token that it wasn't chosen for doesn't count.
        part = xp.where(chosen, out if given.on_input else weight * out, 0.0)
        y = part if y is None else y + part
    return y


def of_expert(given: Mixture, e: int) -> tuple[Array, Array]:
    """Which tokens expert e is chosen for, and its weight for them, (..., 1) each."""
    xp = given.library.xp
    chosen, weight = None, None
    for r, place in enumerate(given.places):
        mine = place[..., e : e + 1]
        own = xp.where(mine, given.weights[..., r : r + 1], 0.0)
        chosen, weight = (mine, own) if chosen is None else (chosen | mine, weight + own)
    return chosen, weight


def expert(experts: Weights, e: int, dtype: DType, xp: Namespace) -> Weights:
    """The weights of one expert."""
    return Weights(*(None if a is None else astype(a[e, ...], dtype, xp) for a in experts))


def network(x: Array, weights: Weights, act: Any, xp: Namespace) -> Array:
    """One expert's network on all tokens."""
    g = _affine(x, weights.W1, weights.b1, xp)
    u = None if weights.V is None else _affine(x, weights.V, weights.c, xp)
    return _affine(act.combine(g, u, xp), weights.W2, weights.b2, xp)


def _affine(x: Array, W: Array, b: Array | None, xp: Namespace) -> Array:
    """x W + b."""
    y = xp.matmul(x, W)
    return y if b is None else y + along_last(b, y, xp)
