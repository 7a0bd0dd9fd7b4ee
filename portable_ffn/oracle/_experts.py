"""The mixture of experts in float64, token by token, with its error bound; ties within rounding widen the bound."""

from typing import Any

import numpy as np

from portable_ffn.oracle._bound import Computed, affine, growth, roundoff, settle, times
from portable_ffn.oracle._choice import Choice
from portable_ffn.oracle._gate import layer
from portable_ffn.oracle._numbers import FLOATING, Array, Floating, dtype_name, promoted, widen
from portable_ffn.oracle._operands import enter
from portable_ffn.oracle._routes import of_scores, per_token, router_arrays, widened
from portable_ffn.oracle._scalars import sigmoid

FIELDS = ("W1", "b1", "W2", "b2", "V", "c")


def feed_forward_experts(
    x: Any,
    router: Any,
    experts: Any,
    *,
    routing: Any,
    activation: Any = "silu",
    shared: Any = None,
    shared_gate: Any = None,
    dtype: Any = None,
) -> tuple[Array, Array]:
    """The mixture of experts with its error bound.

    Parameters
    ----------
    x : array_like, shape (..., d_model)
    router : object with W (d_model, E), and b and selection_bias (E,) or None
    experts : object with W1, b1, W2, b2, V, c, each with a leading axis E, or None
    routing : object with top_k, score, normalise, epsilon, scale, groups, apply_to
    activation : str, gate object or callable
    shared : object with W1, b1, W2, b2, V, c, or None
    shared_gate : array_like, shape (d_model, 1), or None
    dtype : str or dtype, optional
        The dtype whose rounding is bounded; by default that to which x and the networks promote. Scores are taken to
        be computed in float32 at least.

    Returns
    -------
    y, bound : ndarray of float64, shape (..., d_out)
        Where the scores of a chosen and an unchosen expert lie within their errors of each other, the bound holds the
        answer of either.

    Raises
    ------
    TypeError, ValueError
        As for `feed_forward`.

    References
    ----------
    .. [1] Shazeer et al. 2017, "Outrageously Large Neural Networks", equation 1.
    """
    stacked = {f"experts.{field}": getattr(experts, field) for field in FIELDS}
    plain = {} if shared is None else {f"shared.{field}": getattr(shared, field) for field in FIELDS}
    wide, own = widened(x=x, **stacked, **plain)
    precision = FLOATING[promoted(own) if dtype is None else dtype_name(dtype)]
    routed, names = widened(x=x, **router_arrays(router))
    scores = of_scores(precision if dtype is not None else FLOATING[promoted(names)])
    width = wide["x"].shape[-1]
    flat = wide["x"].reshape(-1, width) if width else wide["x"].reshape(int(np.prod(wide["x"].shape[:-1])), 0)
    tokens = enter(flat, precision)
    with np.errstate(all="ignore"):
        found = per_token({**routed, "x": flat}, routing, scores)
        sums = _mixed(tokens, wide, found, routing, activation, precision)
        if shared is not None:
            sums = _plus_shared(sums, tokens, wide, shared_gate, activation, precision, scores)
        bound = sums.bound() + precision.unit_roundoff * np.abs(sums.value)
    shape = (*wide["x"].shape[:-1], wide["experts.W2"].shape[2])
    return sums.value.reshape(shape), np.where(np.isnan(bound), 0.0, bound).reshape(shape)


def _mixed(
    x: Computed,
    wide: dict[str, Array],
    found: list[list[Choice] | None],
    routing: Any,
    activation: Any,
    dtype: Floating,
) -> Computed:
    """The weighted sum of the experts, the bound wide enough for every possible choice."""
    count, out = len(found), wide["experts.W2"].shape[2]
    value, error = np.zeros((count, out)), np.zeros((count, out))
    lost = np.zeros((count, out), np.bool_)
    for t, options in enumerate(found):
        if options is None:
            lost[t] = True
            continue
        token = Computed(x.value[t : t + 1], x.error[t : t + 1], x.overflow[t : t + 1])
        sums = [_sum(token, wide, choice, routing, activation, dtype) for choice in options]
        value[t] = sums[0].value
        for one in sums:
            lost[t] |= one.overflow[0]
            error[t] = np.fmax(error[t], np.abs(one.value[0] - value[t]) + one.error[0])
    return Computed(value, np.where(np.isnan(error), 0.0, error), lost)


def _sum(
    token: Computed, wide: dict[str, Array], choice: Choice, routing: Any, activation: Any, dtype: Floating
) -> Computed:
    """The weighted sum of one choice for one token, (1, d_out)."""
    terms = []
    for e, weight, error in zip(*choice, strict=True):
        factor = Computed(np.full((1, 1), weight), np.full((1, 1), error), np.zeros((1, 1), np.bool_))
        seen = times(factor, token, dtype) if routing.apply_to == "input" else token
        y = _network(seen, {field: wide[f"experts.{field}"][e] for field in FIELDS if f"experts.{field}" in wide},
                     activation, dtype)  # fmt: skip
        terms.append(y if routing.apply_to == "input" else times(factor, y, dtype))
    return _total(terms, dtype)


def _total(terms: list[Computed], dtype: Floating) -> Computed:
    """The sum of some values with their errors."""
    value = np.sum([term.value for term in terms], axis=0)
    error = np.sum([term.error for term in terms], axis=0)
    size = np.sum([np.abs(term.value) + term.error for term in terms], axis=0)
    lost = np.any([term.overflow for term in terms], axis=0)
    return settle(value, error + roundoff(dtype) * growth(len(terms)) * size, lost, np.isfinite(value), dtype)


def _network(x: Computed, weights: dict[str, Array], activation: Any, dtype: Floating) -> Computed:
    """One network on some tokens."""
    given = {"x": x, **{field: enter(array, dtype) for field, array in weights.items()}}
    return affine(layer(given, activation, dtype), given["W2"], given.get("b2"), dtype)


def _plus_shared(
    sums: Computed, x: Computed, wide: dict[str, Array], gate: Any, activation: Any, dtype: Floating, scores: Floating
) -> Computed:
    """The sum with the shared network's output, times its gate."""
    y = _network(
        x, {field: wide[f"shared.{field}"] for field in FIELDS if f"shared.{field}" in wide}, activation, dtype
    )
    if gate is not None:
        z = affine(enter(x.value, scores), enter(widen("shared_gate", gate)[0], scores), None, scores)
        s = np.vectorize(sigmoid, otypes=[float])(z.value) if z.value.size else z.value
        reach = np.minimum(1.0, z.error / 4)  # the sigmoid's slope is 1/4 at most
        u = roundoff(scores)
        y = times(Computed(s, reach * np.ones_like(s) + 4 * u + scores.underflow, z.overflow), y, dtype)
    return _total([sums, y], dtype)
