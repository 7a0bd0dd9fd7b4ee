"""A loaded network is given to transforms that keep weak references to it."""

import weakref

import pytest

from portable_ffn import init_weights
from portable_ffn.checkpoint import load, save


def test_a_loaded_network_is_jitted(tmp_path):
    jax = pytest.importorskip("jax")
    save(tmp_path / "a.safetensors", init_weights(4, 6, dtype="float32"), activation="gelu")
    network = load(tmp_path / "a.safetensors", like=jax.numpy.zeros(1, "float32"))
    assert weakref.ref(network)() is network
    x = jax.numpy.ones((2, 4), "float32")
    assert jax.numpy.allclose(jax.jit(network)(x), network(x))
    assert jax.checkpoint(network)(x).shape == (2, 4)
