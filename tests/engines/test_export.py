"""Round trips through the two frameworks' own formats: exported, saved, loaded, and the same answer."""

import numpy as np
import pytest

from portable_ffn import ClippedGate, Weights, feed_forward, oracle
from portable_ffn.testing import assert_agrees
from tests.oracle.cases import network

NETWORKS = (("gelu", False), ("silu", True), (ClippedGate(7.0, alpha=1.702, offset=1.0), True))
IDS = ("plain", "gated", "clipped")


def arguments(gated, dtype="float32"):
    x, *weights = network(1, 8, 32, tokens=6, gated=gated, dtype=dtype)
    return x.reshape(2, 3, 8), Weights(*weights)


@pytest.mark.parametrize(("activation", "gated"), NETWORKS, ids=IDS)
def test_torch_export(activation, gated, require, tmp_path):
    """A program of PyTorch's own operations with the weights inside, for any number of tokens."""
    require("torch")
    import torch

    class Network(torch.nn.Module):
        def __init__(self, weights):
            super().__init__()
            for name, array in weights._asdict().items():
                self.register_buffer(name, None if array is None else torch.from_numpy(array))

        def forward(self, x):
            return feed_forward(x, self.W1, self.b1, self.W2, self.b2, self.V, self.c, activation=activation)

    x, weights = arguments(gated)
    module = Network(weights)
    tokens = torch.export.Dim("tokens", min=1, max=512)
    program = torch.export.export(module, (torch.from_numpy(x),), dynamic_shapes=({1: tokens},))
    path = tmp_path / "network.pt2"
    torch.export.save(program, path)
    loaded = torch.export.load(path).module()
    assert {node.target.namespace for node in loaded.graph.nodes if node.op == "call_function"} == {"aten"}
    assert torch.equal(loaded(torch.from_numpy(x)), program.module()(torch.from_numpy(x)))
    for given in (x, np.concatenate([x, 2 * x, x], axis=1)):
        y = loaded(torch.from_numpy(given)).numpy()
        assert_agrees(y, given, *oracle.feed_forward(given, *weights, activation=activation))


@pytest.mark.parametrize(("activation", "gated"), NETWORKS, ids=IDS)
def test_jax_export(activation, gated, require, tmp_path):
    """StableHLO that takes x of any batch and the weights; the same bits after loading, and a gradient."""
    require("jax")
    import jax
    from jax import export

    x, weights = arguments(gated, "float64")

    def network(x, *weights):  # a Weights as one argument would have to be registered with jax.export first
        return feed_forward(x, *weights, activation=activation)

    shape = jax.ShapeDtypeStruct(export.symbolic_shape("batch, tokens, 8"), x.dtype)
    exported = export.export(jax.jit(network))(shape, *jax.tree.map(jax.numpy.asarray, weights))
    path = tmp_path / "network.hlo"
    path.write_bytes(exported.serialize(vjp_order=1))
    loaded = export.deserialize(path.read_bytes())
    for given in (x, np.concatenate([x, 2 * x, x], axis=1)):
        array = jax.numpy.asarray(given)
        y = loaded.call(array, *weights)
        assert np.array_equal(y, exported.call(array, *weights))
        assert_agrees(y, array, *oracle.feed_forward(given, *weights, activation=activation))
    dx = jax.grad(lambda x: loaded.call(x, *weights).sum())(jax.numpy.asarray(x))
    parts, bounds = oracle.vjp(x, *weights, np.ones((2, 3, 8)), activation=activation)
    assert_agrees(dx, jax.numpy.asarray(x), parts[0], bounds[0])
