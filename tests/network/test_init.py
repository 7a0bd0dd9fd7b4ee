"""New weights: their numbers, the same on every library, and their sizes."""

import numpy as np
import pytest

from portable_ffn import init_weights
from portable_ffn._arrays.dtype import dtype_name
from portable_ffn._arrays.library import library_of
from portable_ffn.testing import BACKENDS

LIBRARIES = [row for row in BACKENDS.values() if ":" not in row.name and row.missing() is None]


@pytest.mark.parametrize("backend", LIBRARIES, ids=lambda row: row.name)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_the_same_numbers_on_every_library(backend, dtype):
    if dtype not in backend.dtypes:
        pytest.skip(f"{backend.name} has no {dtype}")
    like = backend.put(np.zeros(1), dtype)
    ours, theirs = init_weights(5, 7, gated=True, seed=3), init_weights(5, 7, gated=True, seed=3, like=like)
    for mine, other in zip(ours, theirs, strict=True):
        assert library_of(other) == backend.library
        assert dtype_name(other.dtype) == dtype
        assert np.array_equal(backend.take(other), backend.take(backend.put(mine, dtype)))


def test_uniform_by_the_width_that_comes_in():
    weights = init_weights(64, 1000, gated=True)
    for array, fan_in in zip(weights, (64, 64, 1000, 1000, 64, 64), strict=True):
        bound = fan_in**-0.5
        assert 0.9 * bound < np.abs(array).max() <= bound
        assert abs(array.mean()) < 4 * bound / np.sqrt(3 * array.size)
    assert not np.array_equal(weights.W1, weights.V)


def test_sizes():
    assert init_weights(8).d_ff == 32
    assert init_weights(768, gated=True).d_ff == 2048
    assert init_weights(4096, gated=True).d_ff == 10944
    assert init_weights(8, 3, bias=False)._replace(W1=None, W2=None) == (None,) * 6
    assert init_weights(8, 0).W2.shape == (0, 8)
    assert init_weights(0, 4).W1.shape == (0, 4)


def test_seeds_and_dtypes():
    assert np.array_equal(init_weights(4, seed=1).W1, init_weights(4, seed=1).W1)
    assert not np.array_equal(init_weights(4, seed=1).W1, init_weights(4, seed=2).W1)
    assert init_weights(4).W1.dtype == np.float64
    assert init_weights(4, dtype="float16").W1.dtype == np.float16
    assert init_weights(4, like=np.ones(1, dtype=int)).W1.dtype == np.float64
    assert init_weights(4, like=np.ones(1, dtype="float32"), dtype="float64").W1.dtype == np.float64


@pytest.mark.parametrize("width", [-1, 2.0, "8", True])
def test_errors(width):
    with pytest.raises((ValueError, TypeError), match="d_model must be"):
        init_weights(width)
    with pytest.raises((ValueError, TypeError), match="d_ff must be"):
        init_weights(4, width)
