"""The bound of a layer that normalises inside, scales, or adds the residual: the oracle's, carried through."""

from dataclasses import replace
from typing import Any

import numpy as np

from portable_ffn import Weights, oracle
from portable_ffn._arrays.dtype import REAL_FLOATING, dtype_name
from portable_ffn.testing._backends.arrays import Float64


def bounded(network: Any, x: Float64, dtype: str) -> tuple[Float64, Float64]:
    """A float64 network of a checkpoint on x, and what the rounding of a dtype may do to it.

    The oracle's answer where the network is plain. Else its bound is carried on to first order: a normalisation loses
    as much as eight roundings of its output, beside what it makes of the error before it.
    """
    w, act, u = network.weights, network.activation, oracle.unit_roundoff(dtype)
    inner = x if network.before is None else network.before(x)
    if network.middle is None:
        y, bound = oracle.feed_forward(inner, *w, activation=act, dtype=dtype)
    else:
        h, error = oracle.hidden(inner, w.W1, w.b1, w.V, w.c, activation=act, dtype=dtype)
        middle, error = network.middle(h), _through(network.middle, h, error, u)
        y, bound = oracle.hidden(middle, w.W2, w.b2, activation="identity", dtype=dtype)
        bound = bound + error @ np.abs(w.W2)
    if network.before is not None:
        # The error of the normalised x enters the first product, whose own is growth(n) of them or more.
        n = max(1, x.shape[-1])
        bound = bound * (1.0 + 8.0 / min(n, oracle.LAMBDA * np.sqrt(n)))
    if network.after is not None:
        summed = x + y if network.after_residual else y
        bound = _through(network.after, summed, bound + u * np.abs(summed), u)
        y = network.after(summed)
    if network.scale != 1.0:
        y, bound = y * network.scale, bound * abs(network.scale) + u * np.abs(y * network.scale)
    if network.residual:
        y = x + y
        bound = bound + u * (np.abs(x) + np.abs(y))
    return y, bound


def plain(network: Any) -> Any:
    """A network of a checkpoint without what stands around its matrices."""
    return replace(network, before=None, after=None, after_residual=False, residual=False, scale=1.0)


def dtype_of(weights: Weights) -> str:
    """The dtype of a layer as it was loaded."""
    name = dtype_name(weights.W1.dtype)
    return name if name in REAL_FLOATING else "float32"


def _through(norm: Any, y: Float64, error: Float64, u: float) -> Float64:
    """How far a normalisation's output may move when y moves by its error, and its own rounding."""
    has_gamma = norm.gamma is not None and norm.kind != "l2"
    gamma = np.asarray(norm.gamma, dtype=np.float64) if has_gamma else np.ones(y.shape[-1])
    out: Float64 = norm(y)
    own = 8.0 * u * (np.abs(out) + (0.0 if norm.beta is None else np.abs(np.asarray(norm.beta, dtype=np.float64))))
    if norm.kind == "affine":
        return np.abs(gamma) * error + own
    if norm.kind in ("rms1p", "rms_of_scaled"):
        gamma = 1.0 + gamma if has_gamma else gamma
    if norm.kind == "rms_of_scaled":
        y, error, gamma = y * gamma, error * np.abs(gamma), np.ones_like(gamma)
    mean = y.mean(axis=-1, keepdims=True) if norm.kind == "layer" else 0.0
    total = np.sum if norm.kind == "l2" else np.mean
    size = np.sqrt(total((y - mean) ** 2, axis=-1, keepdims=True) + norm.eps)
    z = np.abs(y - mean) / size
    # d z_i = (d y_i - mean(dy) - z_i total(z dy)) / size, each term in absolute value.
    moved = error + np.abs(z) * total(z * error, axis=-1, keepdims=True)
    if norm.kind == "layer":
        moved = moved + error.mean(axis=-1, keepdims=True)
    carried: Float64 = np.abs(gamma) * moved / size + own
    return carried
