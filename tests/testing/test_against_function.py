"""A model and somebody's function of its layers, on inputs made here or given."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import save_file

from portable_ffn import ACTIVATIONS, feed_forward, hidden, layer_norm
from portable_ffn.checkpoint._loaded.network import Norm
from portable_ffn.testing import compare_models
from portable_ffn.testing._inputs.layers import file_inputs
from portable_ffn.testing._models.layer import Layer
from tests.testing.models import D_FF, D_MODEL, NORM, PLAIN, X, bert, gelu, llama, right, tanh_gelu


def test_a_sound_function_passes(a):
    for b in (right, lambda x, W1, b1, W2, b2: feed_forward(x, W1, b1, W2, b2, activation="gelu")):
        found = compare_models(a, b)
        assert found.passed, str(found)
        assert 0.0 < max(layer.worst for layer in found.layers) < 1.0
    assert compare_models(right, a).passed


def test_a_faulty_function_is_named(a):
    found = compare_models(a, tanh_gelu)
    assert found.b.endswith("models:tanh_gelu")
    assert {layer.cause for layer in found.layers} == {"gelu_tanh where gelu is meant"}

    def unbiased(x, W1, b1, W2, b2):
        return gelu(x @ W1) @ W2 + b2

    assert compare_models(a, unbiased).first.cause == "b1 missing"


def test_a_function_at_full_size_is_probed_with_a_unit_matrix(tmp_path):
    def small(tensors):
        for name in tensors:
            if name.endswith("weight"):
                tensors[name] *= 0.05

    a = bert(tmp_path / "a", small, layers=1, d_model=384, d_ff=1536)
    found = compare_models(a, tanh_gelu)
    assert found.first.message.startswith("with W2 = I the answer must be")
    assert found.first.cause == "gelu_tanh where gelu is meant"
    assert compare_models(a, right).passed


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_a_function_of_another_library(a, library, require):
    require(library)
    found = compare_models(a, right, library=library, layer=0)
    assert found.passed, str(found)
    assert "gelu_tanh" in compare_models(a, tanh_gelu, library=library, layer=0).first.cause


def test_half_precision_weights_of_a_function(tmp_path):
    """NumPy has no product in half precision of its own, so the same weights come in float32."""
    assert {layer.dtype for layer in compare_models(bert(tmp_path / "a", dtype="float16"), right).layers} == {"float32"}


def test_a_gated_function(tmp_path):
    a = llama(tmp_path / "a")

    def swiglu(x, W1, b1, W2, b2, V, c):
        assert b1 is b2 is c is None
        return (ACTIVATIONS["silu"](x @ W1) * (x @ V)) @ W2

    assert compare_models(a, swiglu).passed
    found = compare_models(a, lambda x, W1, W2, V: (ACTIVATIONS["silu"](x @ V) * (x @ W1)) @ W2)
    assert found.first.cause == "gate and linear branch swapped"


def test_two_functions_are_refused():
    with pytest.raises(TypeError, match="one of A and B must be a checkpoint"):
        compare_models(right, right)


def test_given_inputs(a, tmp_path, cases):
    """What entered a real model's layers, in a file of the form of the outside cases."""
    given = file_inputs(cases / "minilm" / "ffn.safetensors")
    assert sorted(given) == list(range(6))
    assert given[0].x.shape[-1] == 384
    assert given.get(6) is None


def test_inputs_choose_the_layers(a, tmp_path):
    path = tmp_path / "inputs.safetensors"
    x = np.random.default_rng(0).standard_normal((2, 3, D_MODEL)).astype(np.float32)
    save_file({"layers.1.x": x, "layers.3.x": x, "layers.1.y": x}, path)
    assert sorted(file_inputs(path)) == [1, 3]
    found = compare_models(a, a, inputs=file_inputs(path))
    assert [layer.layer for layer in found.layers] == [1, 3]
    assert found.skipped == (0, 2)
    assert found.passed
    with pytest.raises(ValueError, match="inputs must have one of A's layers, 0, 1, 2, 3; got 7"):
        compare_models(a, a, inputs={7: file_inputs(path)[1]})
    wide = {0: SimpleNamespace(x=np.zeros((2, 5)))}
    assert "must have shape (..., 8), got (2, 5)" in compare_models(a, a, inputs=wide).layers[0].message


def test_normalised_inputs_reach_the_function(tmp_path):
    """A layer that normalises before W1 hands the normalised x to the function."""
    record = Layer("a", "b", "main", 0, None, "", "error", math.nan, math.nan)
    from portable_ffn.testing import BACKENDS
    from portable_ffn.testing._models.against_function import against_function

    a = replace(PLAIN, before=NORM).to(dtype="float64")
    given = []

    def fn(x, W1, b1, W2, b2):
        given.append(x)
        return gelu(x @ W1 + b1) @ W2 + b2

    found = against_function(record, a, fn, X, None, BACKENDS["numpy"], lambda weights: True)
    assert found.status == "pass"
    np.testing.assert_allclose(given[0], layer_norm(X, NORM.gamma, NORM.beta, eps=1e-5), rtol=1e-12)
    assert hidden(given[0], a.weights.W1, a.weights.b1).shape == (8, D_FF)
    middle = replace(PLAIN, middle=Norm("rms", np.ones(D_FF), None, 1e-6))
    with pytest.raises(ValueError, match="normalises between its matrices"):
        against_function(record, middle, fn, X, None, BACKENDS["numpy"], lambda weights: True)
