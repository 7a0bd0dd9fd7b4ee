"""Gradient descent on any array library, in lines that don't know which: no framework, no autograd.

python examples/train_anywhere.py LIBRARY

LIBRARY is numpy (the default), torch, jax, tensorflow, paddle, mlx, tinygrad, dask, dpnp or array-api-strict.
"""

import importlib
import sys

import numpy as np

from portable_ffn import Weights, feed_forward, feed_forward_vjp, init_weights

# Where each library keeps its `asarray`, and what some call it.
MODULES = {"dask": "dask.array", "mlx": "mlx.core", "array-api-strict": "array_api_strict", "jax": "jax.numpy"}
NAMES = {"mlx": "array", "tensorflow": "convert_to_tensor", "paddle": "to_tensor", "tinygrad": "Tensor"}
INPUT = np.random.default_rng(0).uniform(-1, 1, size=(256, 2)).astype("float32")
TARGET = np.stack([np.sin(3 * INPUT[:, 0]), np.cos(3 * INPUT[:, 1])], axis=1)


def train(asarray, steps=100, rate=0.5):
    """The weights after some steps down the mean squared error; on a lazy library nothing is computed yet."""
    x, target = asarray(INPUT), asarray(TARGET)
    weights = init_weights(2, 32, like=x)
    for _ in range(steps):
        y, pullback = feed_forward_vjp(x, *weights, activation="gelu")
        _, gradient = pullback((y - target) / len(INPUT))
        weights = Weights(*(w if w is None else w - rate * g for w, g in zip(weights, gradient, strict=True)))
    return weights


def loss(weights):
    """The mean squared error, on NumPy, which the weights of every library travel to."""
    return float(np.mean((feed_forward(INPUT, *weights.to(like=INPUT), activation="gelu") - TARGET) ** 2))


if __name__ == "__main__":
    library = sys.argv[1] if len(sys.argv) > 1 else "numpy"
    module = importlib.import_module(MODULES.get(library, library))
    asarray = getattr(module, NAMES.get(library, "asarray"))
    print(f"{library}: loss {loss(train(asarray, steps=0)):.4f}, after 100 steps {loss(train(asarray)):.4f}")
