"""Networks for the oracle's tests, a plain NumPy computation of them, and how far an answer is from the oracle's."""

import math
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

U = {"float64": 2.0**-53, "float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}


def numpy_dtype(name: str) -> Any:
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def network(
    seed: int, d_model: int, d_ff: int, *, tokens=4, gated=False, bias=True, scale=1.0, dtype="float64", d_out=None
):
    """Some x of N(0, scale**2) and weights of U(-1, 1) / sqrt(fan_in), in a NumPy dtype."""
    rng, d_out = np.random.default_rng(seed), d_model if d_out is None else d_out

    def weights(*shape: int) -> Any:
        fan_in = max(shape[0], 1) if len(shape) == 2 else d_model
        return (rng.uniform(-1, 1, size=shape) / math.sqrt(fan_in)).astype(numpy_dtype(dtype))

    x = (scale * rng.normal(size=(tokens, d_model))).astype(numpy_dtype(dtype))
    W1, b1, W2, b2 = weights(d_model, d_ff), weights(d_ff), weights(d_ff, d_out), weights(d_out)
    V, c = (weights(d_model, d_ff), weights(d_ff)) if gated else (None, None)
    return (x, W1, b1, W2, b2, V, c) if bias else (x, W1, None, W2, None, V, None)


def gate(limit=None, alpha=1.0, offset=0.0, clip="before"):
    return SimpleNamespace(limit=limit, alpha=alpha, offset=offset, clip=clip)


def excess(y: Any, answer: Any, bound: Any) -> float:
    """The largest |y - answer| / bound; inf where one is NaN and the other isn't."""
    y = np.asarray(y).astype(np.float64)
    assert y.shape == answer.shape == bound.shape
    assert not np.isnan(bound).any()
    with np.errstate(all="ignore"):
        ratio = np.abs(y - answer) / bound
    alike = (y == answer) | (np.isnan(y) & np.isnan(answer)) | np.isinf(bound)
    ratio = np.where(alike, 0.0, np.where(np.isnan(ratio), np.inf, ratio))
    return float(ratio.max(initial=0.0))


def plain_numpy(x, W1, b1, W2, b2, V, c, act):
    """The network in the dtype of its arrays, with products in the order of their terms and each step rounded."""

    def affine(x, W, b):
        total = np.zeros((x.shape[0], W.shape[1]), x.dtype)
        for k in range(x.shape[1]):
            total = total + x[:, k : k + 1] * W[k : k + 1]
        return total if b is None else total + b

    h = act(affine(x, W1, b1)).astype(x.dtype)
    h = h if V is None else h * affine(x, V, c)
    return affine(h, W2, b2), h
