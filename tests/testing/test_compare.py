"""Two models layer by layer: what differs is found, named and counted."""

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from portable_ffn import ClippedGate, Weights, checkpoint, feed_forward, init_weights
from portable_ffn.testing import compare_models
from portable_ffn.testing._backends.arrays import held
from portable_ffn.testing._inputs.layers import Given
from portable_ffn.testing._models.unequal import unequal
from tests.testing.models import D_FF, D_MODEL, FAULTS, LAYERS, at, bert, llama, one


def test_a_model_equals_itself(a):
    found = compare_models(a, a)
    assert found.passed
    assert not found.different
    assert found.first is None
    assert [layer.message for layer in found.layers] == ["equal"] * LAYERS
    assert all(layer.worst < 1e-6 for layer in found.layers)


@pytest.mark.parametrize("fault", FAULTS)
def test_what_differs_is_named(a, tmp_path, fault):
    change, says = FAULTS[fault]
    found = compare_models(a, bert(tmp_path / "b", change))
    assert [layer.status for layer in found.layers] == ["pass", "pass", "fail", "pass"]
    assert found.first.layer == 2
    assert says in found.first.cause
    assert found.first.unequal
    assert found.first.worst > 1.0 > found.layers[1].worst
    assert found.first.example.alone
    assert abs(found.first.example.got - found.first.example.expected) > found.first.example.bound


def test_a_nan_is_called_a_nan(a, tmp_path):
    b = bert(tmp_path / "b", one("output.dense.weight", at((3, 5), np.nan)))
    assert "W2 is NaN only in B at (5, 3)" in str(compare_models(a, b))


def test_branches_of_a_gated_model(tmp_path):
    def swapped(tensors):
        gate, up = "model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.up_proj.weight"
        tensors[gate], tensors[up] = tensors[up], tensors[gate]

    found = compare_models(llama(tmp_path / "a"), llama(tmp_path / "b", swapped))
    assert [layer.status for layer in found.layers] == ["pass", "fail", "pass", "pass"]
    assert found.first.cause.startswith("gate and linear branch swapped")
    assert [one.weight for one in found.first.unequal] == ["W1", "V"]


def test_another_activation(a, tmp_path):
    found = compare_models(a, bert(tmp_path / "b", activation="gelu_new"))
    assert {layer.status for layer in found.layers} == {"fail"}
    # What the files say is told, and nothing is guessed beside it.
    assert {layer.cause for layer in found.layers} == {"the activation is gelu in A and gelu_tanh in B"}
    assert not any(layer.causes for layer in found.layers)


def test_another_activation_shows_in_the_hidden_layer_of_a_large_one(tmp_path):
    """At 384/1536 the output hides a tanh GELU in float32, the hidden layer does not."""
    sizes = {"layers": 1, "d_model": 384, "d_ff": 1536}

    def small(tensors):
        for name in tensors:
            if name.endswith("weight"):
                tensors[name] *= 0.05

    models = [bert(tmp_path / name, small, activation=name, **sizes) for name in ("gelu", "gelu_new")]
    found = compare_models(*models)
    assert found.first.cause == "the activation is gelu in A and gelu_tanh in B"
    assert found.first.message.startswith("in the hidden layer the answer must be")


def test_two_dtypes_are_measured_in_the_coarser(a, tmp_path):
    found = compare_models(a, bert(tmp_path / "b", dtype="float16"))
    assert found.passed
    assert {layer.dtype for layer in found.layers} == {"float16"}
    assert {layer.message for layer in found.layers} == {"equal as float16 holds them"}
    assert 0.0 < max(layer.worst for layer in found.layers) < 1.0
    strict = compare_models(a, tmp_path / "b", dtype="float32")
    assert "rounded to float16" in strict.first.cause


def test_layers_of_other_widths(a, tmp_path):
    wider = compare_models(a, bert(tmp_path / "d_ff", d_ff=48))
    assert wider.first.layer == 0
    assert "W1 has shape (8, 32) in A and (8, 48) in B" in wider.first.cause
    other = compare_models(a, bert(tmp_path / "d_model", d_model=16))
    assert other.first.message == "inputs and outputs must be as wide as A's to be compared"
    assert other.first.worst == math.inf


def test_layers_that_one_alone_has(a, tmp_path):
    longer = bert(tmp_path / "b", layers=6)
    found = compare_models(a, longer)
    assert all(layer.status == "pass" for layer in found.layers)
    assert found.only_b == ("bert.encoder.layer.4", "bert.encoder.layer.5")
    assert found.different
    assert not found.passed
    assert compare_models(longer, a).only_a == found.only_b
    assert "only in B: bert.encoder.layer.4" in str(found)


def test_one_layer_alone(a, tmp_path):
    change, _ = FAULTS["b2 missing"]
    b = bert(tmp_path / "b", change)
    assert compare_models(a, b, layer=1).passed
    assert compare_models(a, b, layer=2).first.layer == 2
    with pytest.raises(ValueError, match="layer must be one of A's, 0, 1, 2, 3; got 9"):
        compare_models(a, b, layer=9)


def test_a_file_of_one_network_is_the_layer_that_is_asked_for(a, tmp_path):
    checkpoint.save(tmp_path / "one.safetensors", checkpoint.load(a, 2))
    assert compare_models(a, tmp_path / "one.safetensors", layer=2).passed
    assert compare_models(a, tmp_path / "one.safetensors", layer=1).first.cause


def test_a_layer_that_cannot_be_read_is_an_error_of_its_own(a, tmp_path):
    b = bert(tmp_path / "b", lambda t: t.update({"bert.encoder.layer.1.output.dense.bias": np.zeros(3)}))
    found = compare_models(a, b)
    assert [layer.status for layer in found.layers] == ["pass", "error", "pass", "pass"]
    assert found.layers[1].message.startswith("CheckpointError")
    assert str(found).endswith("not passed: 3 of 4 layers agree, 1 could not be compared")
    assert not found.passed
    assert not found.different


def test_a_hundred_layers_are_never_held_at_once(tmp_path):
    sizes = {"layers": 100, "d_model": 32, "d_ff": 128}
    models = [bert(tmp_path / name, **sizes) for name in ("a", "b")]
    whole = 100 * 2 * 32 * 128 * 8
    heard = []

    def progress(layer, number, count):
        heard.append((layer.layer, number, count))

    one_position = {i: Given(np.random.default_rng(i).standard_normal((1, 32)), None) for i in range(100)}
    compare_models(*models, layer=0)  # what is imported on the way is no part of it
    tracemalloc.start()
    try:
        found = compare_models(*models, inputs=one_position, progress=progress)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.passed
    assert heard == [(i, i, 100) for i in range(100)]
    assert peak < whole / 4, f"{peak} bytes at once; one layer has {whole // 100} in float64, all have {whole}"


def test_a_clamped_gate(tmp_path):
    """A gate object of the checkpoint is what the function is held to."""
    weights = Weights(*(None if w is None else 4 * w for w in init_weights(D_MODEL, D_FF, gated=True, seed=1)))
    gate = ClippedGate(1.0, 1.702, 1.0)
    checkpoint.save(tmp_path / "gate.safetensors", weights, activation=gate)
    assert compare_models(tmp_path / "gate.safetensors", lambda *arrays: feed_forward(*arrays, activation=gate)).passed
    loose = replace(gate, limit=None)
    found = compare_models(tmp_path / "gate.safetensors", lambda *arrays: feed_forward(*arrays, activation=loose))
    assert found.first.cause == "no clamp"


def test_a_nan_in_both_files_is_no_difference():
    """NaN is not equal to itself; two weights that hold it at the same place are, and a bias beside it may differ."""
    W = np.ones((2, 3))
    W[1, 1] = np.nan
    a = Weights(W, np.zeros(3), W.T, None)
    assert list(unequal(a, a, "float64")) == []
    (one,) = unequal(a, a._replace(W1=np.where(np.isnan(W), W, 1.5)), "float64")
    assert (one.weight, one.largest, one.relative, one.place) == ("W1", 0.5, 0.5, (0, 0))
    (rounded,) = unequal(a, a._replace(W2=np.where(np.isnan(W.T), W.T, 1.0), W1=W * np.pi), "float64")
    assert rounded.weight == "W1"
    third = a._replace(W1=W / 3)
    (rounded,) = unequal(third, third._replace(W1=held(W / 3, "float32")), "float64")
    assert rounded.says.endswith("it is A's rounded to float32")
