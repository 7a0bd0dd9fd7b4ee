"""Files that other libraries write, and whether a store holds what was put in."""

import numpy as np
import pytest

save_numpy = pytest.importorskip("safetensors.numpy").save_file


def write(path, *names, shape=(3, 4), seed=0, metadata=None):
    """A file of random float32 tensors by the format's own library."""
    rng = np.random.default_rng(seed)
    tensors = {name: rng.standard_normal(shape).astype(np.float32) for name in names}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_numpy(tensors, path, metadata=metadata)
    return tensors


def same(store, tensors):
    """Whether the store has these tensors and no others, bit for bit."""
    assert set(store.tensors) == set(store.logical) == set(tensors)
    for name, value in tensors.items():
        got = store.read(name)
        assert (got.dtype, got.shape) == (value.dtype, value.shape)
        assert store.tensors[name].shape == value.shape
        assert store.tensors[name].dtype == value.dtype.name
        assert got.tobytes() == value.tobytes()
        assert store.sources(name) == (name,)
