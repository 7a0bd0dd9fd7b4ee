"""Weights into TensorFlow, Paddle, tinygrad and dpnp and back: every dtype bit for bit, and the rule of `like`."""

import numpy as np
import pytest

from portable_ffn import init_weights
from portable_ffn.testing import BACKENDS

LIBRARIES = ("tensorflow", "paddle", "tinygrad", "dpnp")
DTYPES = {
    "tensorflow": ("float64", "float32", "float16", "bfloat16"),
    "paddle": ("float64", "float32", "float16", "bfloat16"),
    "tinygrad": ("float64", "float32", "float16"),
    "dpnp": ("float64", "float32", "float16"),
}
PAIRS = [(library, dtype) for library in LIBRARIES for dtype in DTYPES[library]]


@pytest.mark.parametrize(("library", "dtype"), PAIRS, ids="-".join)
def test_there_and_back(library, dtype, require):
    row = require(library)
    like = row.put(np.zeros(1), "float32")
    weights = init_weights(3, 5, gated=True).to(dtype=dtype)
    there = weights.to(like=like, dtype=dtype)
    assert {type(w).__module__.partition(".")[0] for w in there if w is not None} == {
        type(like).__module__.partition(".")[0]
    }
    back = there.to(like=np.zeros(1), dtype=dtype)
    for w, b in zip(weights, back, strict=True):
        assert b.dtype == w.dtype
        assert b.tobytes() == w.tobytes()


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_dtype_is_that_of_like(library, require):
    like = require(library).put(np.zeros(1), "float32")
    moved = init_weights(3, 5).to(like=like)
    assert all(BACKENDS[library].take(w).dtype == np.float64 and "float" in str(w.dtype) for w in moved[:4])
    assert str(moved.W1.dtype) == str(like.dtype)


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_is_moved_is_a_copy_of_numpys_memory(library, require):
    """Or memory that the library keeps from being written: what changes afterwards in NumPy changes nothing here."""
    row = require(library)
    weights = init_weights(3, 5)
    moved = weights.to(like=row.put(np.zeros(1), "float64"))
    before = weights.W2.copy()
    back = moved.to(like=np.zeros(1))
    weights.b1[...] = 7.0
    assert not np.any(row.take(moved.b1) == 7.0)
    assert np.array_equal(back.W2, before)


@pytest.mark.parametrize("library", ["tensorflow", "paddle"])
def test_a_device_that_is_not_there(library, require):
    like = require(library).put(np.zeros(1), "float32")
    with pytest.raises(ValueError, match=f"device must be one that {library} has here"):
        init_weights(3, 5).to(like=like, device="no such device")
