"""From logits to the chosen experts and their weights, in functions of the standard: static shapes, no branch on data.

The choice is made by the scores as they are computed, ties by the lower index: k rounds of argmax, since lazy
libraries have no sort. The weights are computed from the logits of the chosen ones, normalised ones by the logarithms
of the scores, so that neither they nor their derivatives over- or underflow where scores do.
"""

from portable_ffn._activations.exponential import sigmoid, softplus, sqrt_softplus
from portable_ffn._activations.piecewise import minus_abs
from portable_ffn._arrays.library import library
from portable_ffn._arrays.typing import Array, Namespace
from portable_ffn.experts._router import Router, Routing

SQRT_SOFTPLUS_LOW = -40.0  # below it softplus(l) is exp(l) to the last digit


def choose(logits: Array, router: Router, routing: Routing, xp: Namespace) -> tuple[list[Array], list[Array]]:
    """The chosen experts, best first, as their indices and as their places among all: k arrays (..., 1), (..., E)."""
    values = scores(logits, routing, xp)
    if router.selection_bias is not None:
        values = values + along_last(router.selection_bias, values, xp)
    values = _sortable(values, xp)
    numbers = along_last(_numbers(values, xp), values, xp)
    if routing.groups is not None:
        values = _within_groups(values, numbers, routing.groups, xp)
    indices, places = [], []
    for _ in range(routing.top_k):
        index = xp.expand_dims(xp.argmax(values, axis=-1), axis=-1)
        place = numbers == index
        values = xp.where(place, -xp.inf, values)
        indices.append(index)
        places.append(place)
    return indices, places


def scores(logits: Array, routing: Routing, xp: Namespace) -> Array:
    """What experts are chosen by, before the selection bias."""
    if routing.score == "softmax":
        e = xp.exp(logits - largest(logits, xp))
        return e / xp.sum(e, axis=-1, keepdims=True)
    if routing.score == "sigmoid":
        return sigmoid(logits, xp)
    if routing.score == "sqrt_softplus":
        return sqrt_softplus(logits, xp)
    return logits


def weigh(logits: Array, places: list[Array], routing: Routing, xp: Namespace) -> Array:
    """The weights of the chosen experts, (..., top_k)."""
    chosen = gathered(logits, places, xp)
    logarithms = _log_scores(chosen, logits, routing, xp)
    if routing.score == "sigmoid":
        own = sigmoid(chosen, xp)
    elif routing.score == "sqrt_softplus":
        own = sqrt_softplus(chosen, xp)
    else:
        own = xp.exp(logarithms)
    if routing.normalise:
        total = xp.sum(own, axis=-1, keepdims=True)
        if routing.epsilon:
            own = xp.exp(logarithms - xp.log(total + routing.epsilon))
        else:
            e = xp.exp(logarithms - largest(logarithms, xp))
            own = xp.where(total == 0, 0.0, e / xp.sum(e, axis=-1, keepdims=True))
    return own * routing.scale


def gathered(values: Array, places: list[Array], xp: Namespace) -> Array:
    """The values of the chosen experts, (..., top_k), from those of all."""
    return xp.stack([xp.sum(xp.where(place, values, 0.0), axis=-1) for place in places], axis=-1)


def _log_scores(chosen: Array, logits: Array, routing: Routing, xp: Namespace) -> Array:
    """The logarithms of the chosen experts' scores."""
    if routing.score == "sigmoid":
        return xp.where(chosen <= 0, chosen, 0.0) - xp.log1p(xp.exp(minus_abs(chosen, xp)))
    if routing.score == "sqrt_softplus":
        low = chosen <= SQRT_SOFTPLUS_LOW
        high = xp.log(softplus(xp.where(low, SQRT_SOFTPLUS_LOW, chosen), xp))
        return 0.5 * xp.where(low, chosen, high)
    over = logits if routing.score == "softmax" else chosen
    top = largest(over, xp)
    return (chosen - top) - xp.log(xp.sum(xp.exp(over - top), axis=-1, keepdims=True))


def _sortable(values: Array, xp: Namespace) -> Array:
    """Values in which -inf marks what was taken: NaN counts as the largest, so that it is passed on."""
    lowest = float(xp.finfo(values.dtype).min)
    held = xp.where(values > lowest, values, lowest)
    return xp.where(values != values, xp.inf, held)


def _within_groups(values: Array, numbers: Array, groups: tuple[int, int, str], xp: Namespace) -> Array:
    """The values with -inf for the experts outside the best groups."""
    n_groups, top_groups, kind = groups
    size = values.shape[-1] // n_groups
    best = []
    for group in range(n_groups):
        inside = values[..., group * size : (group + 1) * size]
        first = numbers[..., :size] == xp.expand_dims(xp.argmax(inside, axis=-1), axis=-1)
        value = xp.sum(xp.where(first, inside, 0.0), axis=-1, keepdims=True)
        if kind == "top2_sum":
            value = value + largest(xp.where(first, -xp.inf, inside), xp)
        best.append(value)
    ranked = _sortable(xp.concat(best, axis=-1), xp)
    kept = None
    for _ in range(top_groups):
        group = xp.expand_dims(xp.argmax(ranked, axis=-1), axis=-1)
        mine = (numbers >= group * size) & (numbers < (group + 1) * size)
        kept = mine if kept is None else kept | mine
        ranked = xp.where(numbers[..., :n_groups] == group, -xp.inf, ranked)
    return xp.where(kept, values, -xp.inf)


def largest(values: Array, xp: Namespace) -> Array:
    """The largest of the last axis, (..., 1): Dask's max fails on a chunk of no tokens, its argmax doesn't."""
    place = along_last(_numbers(values, xp), values, xp) == xp.expand_dims(xp.argmax(values, axis=-1), axis=-1)
    return xp.sum(xp.where(place, values, 0.0), axis=-1, keepdims=True)


def along_last(row: Array, array: Array, xp: Namespace) -> Array:
    """An array of one axis in the rank of `array`, whose last axis it is: JAX may be told to promote no rank."""
    return xp.reshape(row, (1,) * (array.ndim - 1) + tuple(row.shape))


def _numbers(values: Array, xp: Namespace) -> Array:
    """0, 1, 2 ... for the experts, on the device of their values where a library has several and combines none."""
    if library(values).row.many_devices:
        return xp.arange(values.shape[-1], device=values.device)
    return xp.arange(values.shape[-1])
