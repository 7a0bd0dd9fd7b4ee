"""Arrays of the libraries that have a native row, and the oracle beside them."""

import math

import numpy as np
import pytest

from portable_ffn import Weights
from tests.conftest import demand

FLOATS = ("float32", "float64")

# Two blocks on NumPy and PyTorch, the second shorter, and many tiles.
ROWS, D_MODEL, D_FF = 2501, 5, 300


def put(library, array, dtype=None):
    demand(library)
    return Weights(array, None, None, None).to(like=anchor(library), dtype=dtype or array.dtype.name).W1


def anchor(library):
    if library == "numpy":
        return np.zeros(1)
    module = pytest.importorskip({"torch": "torch", "jax": "jax.numpy"}[library])
    return module.zeros(1)


def read(array):
    return np.asarray(array.detach() if hasattr(array, "detach") else array)


def network(dtype, gated=True, rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.normal(size=shape).astype(dtype)

    x = normal(rows, D_MODEL)
    weights = [normal(D_MODEL, D_FF), normal(D_FF), normal(D_FF, D_MODEL) / 8, normal(D_MODEL)]
    return [x, *weights, *([normal(D_MODEL, D_FF), normal(D_FF)] if gated else [None, None])]


ENDS = (-math.inf, -1e30, -1000.0, -88.8, -30.0, -0.0, 0.0, 30.0, 88.8, 1000.0, 1e30, math.inf, math.nan)
