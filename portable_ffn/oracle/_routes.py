"""The experts and the weights of each token in float64, with the weights' bound and where a choice is in doubt."""

from typing import Any, NamedTuple

import numpy as np

from portable_ffn.oracle._bound import affine
from portable_ffn.oracle._choice import Choice, choices
from portable_ffn.oracle._numbers import FLOATING, Array, Floating, Mask, cast_error, dtype_name, promoted, widen
from portable_ffn.oracle._operands import enter


class Routes(NamedTuple):
    """The weights and the experts of each token, best first, the bound of the weights, and which tokens are tied.

    A token is tied where another choice, or another order, lies within rounding: there the indices may differ.
    """

    weights: Array
    indices: Any
    bound: Array
    tied: Mask


def route(x: Any, router: Any, routing: Any, *, dtype: Any = None) -> Routes:
    """The experts that each token is given and their weights.

    Parameters
    ----------
    x : array_like, shape (..., d_model)
    router : object with W (d_model, E), and b and selection_bias (E,) or None
    routing : object with top_k, score, normalise, epsilon, scale, groups
    dtype : str or dtype, optional
        The dtype whose rounding is bounded; by default that to which x and the router promote. Scores are taken to be
        computed in float32 at least.

    Returns
    -------
    Routes

    Raises
    ------
    TypeError, ValueError
        As for `feed_forward`.

    References
    ----------
    .. [1] Shazeer et al. 2017, "Outrageously Large Neural Networks", section 2.1.
    """
    wide, own = widened(x=x, **router_arrays(router))
    precision = FLOATING[promoted(own) if dtype is None else dtype_name(dtype)]
    found = per_token(wide, routing, of_scores(precision))
    shape = (*wide["x"].shape[:-1], routing.top_k)
    weights = np.array([c[0].weights if c else (np.nan,) * routing.top_k for c in found]).reshape(shape)
    errors = np.array([c[0].errors if c else (np.inf,) * routing.top_k for c in found]).reshape(shape)
    indices = np.array([c[0].indices if c else (-1,) * routing.top_k for c in found], np.int64).reshape(shape)
    tied = np.array([c is None or len(c) > 1 or _close(c[0]) for c in found], np.bool_).reshape(shape[:-1])
    return Routes(weights, indices, errors + precision.unit_roundoff * np.abs(weights), tied)


def router_arrays(router: Any) -> dict[str, Any]:
    """The router's arrays by name."""
    return {f"router.{field}": getattr(router, field) for field in ("W", "b", "selection_bias")}


def widened(**arrays: Any) -> tuple[dict[str, Array], list[str | None]]:
    """The arrays in float64, and their dtypes' names."""
    found = {name: widen(name, array) for name, array in arrays.items() if array is not None}
    return {name: array for name, (array, _) in found.items()}, [given for _, given in found.values()]


def of_scores(dtype: Floating) -> Floating:
    """The dtype of scores: float32 at least."""
    return dtype if dtype.bits > FLOATING["float32"].bits else FLOATING["float32"]


def per_token(wide: dict[str, Array], routing: Any, dtype: Floating) -> list[list[Choice] | None]:
    """The possible choices of each token."""
    x, W = wide["x"], wide["router.W"]
    flat = x.reshape(int(np.prod(x.shape[:-1])), x.shape[-1])
    b = enter(wide["router.b"], dtype) if "router.b" in wide else None
    with np.errstate(all="ignore"):
        logits = affine(enter(flat, dtype), enter(W, dtype), b, dtype)
        biases = None
        if "router.selection_bias" in wide:
            bias = wide["router.selection_bias"]
            biases = list(zip(bias.tolist(), cast_error(bias, dtype).tolist(), strict=True))
    found: list[list[Choice] | None] = []
    for value, error, lost in zip(logits.value, logits.error, logits.overflow, strict=True):
        pairs = list(zip(value.tolist(), error.tolist(), strict=True))
        found.append(None if lost.any() else choices(pairs, biases, routing, dtype))
    return found


def _close(choice: Choice) -> bool:
    """Whether two weights that follow each other may change places."""
    w, e = choice.weights, choice.errors
    return any(w[i] - w[i + 1] <= e[i] + e[i + 1] for i in range(len(w) - 1))
