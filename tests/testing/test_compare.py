"""Two models layer by layer: what differs is found, named and counted; a hundred layers are never held at once."""

import itertools
import json
import math
import re
import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from portable_ffn import ACTIVATIONS, ClippedGate, Weights, checkpoint, feed_forward, hidden, init_weights, layer_norm
from portable_ffn.__main__ import main
from portable_ffn.checkpoint._loaded.network import Network, Norm
from portable_ffn.testing import compare_models
from portable_ffn.testing._backends.arrays import held
from portable_ffn.testing._inputs.layers import Given, file_inputs
from portable_ffn.testing._measure.bound import _through, bounded
from portable_ffn.testing._models.against_network import against_network
from portable_ffn.testing._models.comparison import Layer
from portable_ffn.testing._models.pairs import pair
from portable_ffn.testing._models.unequal import unequal

D_MODEL, D_FF, LAYERS = 8, 32, 4


def numbers(seed=0, layers=LAYERS, d_model=D_MODEL, d_ff=D_FF):
    """The tensors of a BERT."""
    random = np.random.default_rng(seed)
    tensors = {}
    for i in range(layers):
        stem = f"bert.encoder.layer.{i}"
        tensors[f"{stem}.intermediate.dense.weight"] = random.uniform(-0.6, 0.6, (d_ff, d_model))
        tensors[f"{stem}.intermediate.dense.bias"] = random.uniform(-1, 1, d_ff)
        tensors[f"{stem}.output.dense.weight"] = random.uniform(-0.3, 0.3, (d_model, d_ff))
        tensors[f"{stem}.output.dense.bias"] = random.uniform(-1, 1, d_model)
    return tensors


def bert(folder, change=None, *, activation="gelu", dtype="float32", layers=LAYERS, d_model=D_MODEL, d_ff=D_FF):
    """A BERT's folder; `change` may alter its tensors."""
    tensors = numbers(0, layers, d_model, d_ff)
    if change is not None:
        change(tensors)
    folder.mkdir()
    save_file({k: np.ascontiguousarray(v).astype(dtype) for k, v in tensors.items()}, folder / "model.safetensors")
    config = {"model_type": "bert", "hidden_act": activation, "num_hidden_layers": layers}
    (folder / "config.json").write_text(json.dumps({**config, "hidden_size": d_model, "intermediate_size": d_ff}))
    return folder


def llama(folder, change=None):
    """A gated model's folder."""
    random = np.random.default_rng(0)
    shapes = {"gate_proj": (D_FF, D_MODEL), "up_proj": (D_FF, D_MODEL), "down_proj": (D_MODEL, D_FF)}
    tensors = {
        f"model.layers.{i}.mlp.{name}.weight": random.uniform(-0.5, 0.5, shape)
        for i in range(LAYERS)
        for name, shape in shapes.items()
    }
    if change is not None:
        change(tensors)
    folder.mkdir()
    save_file({k: np.ascontiguousarray(v).astype("float32") for k, v in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "hidden_act": "silu"}))
    return folder


@pytest.fixture(scope="module")
def a(tmp_path_factory):
    return bert(tmp_path_factory.mktemp("models") / "a")


def gelu(h):
    return ACTIVATIONS["gelu"](h)


# functions that a checkpoint is compared with, by package.module:function


def right(x, W1, b1, W2, b2):
    return gelu(x @ W1 + b1) @ W2 + b2


def tanh_gelu(x, W1, b1, W2, b2):
    return ACTIVATIONS["gelu_tanh"](x @ W1 + b1) @ W2 + b2


def raises(x, W1, b1, W2, b2):
    raise RuntimeError("no kernel\nfor this")


# Checkpoints


def test_a_model_equals_itself(a):
    found = compare_models(a, a)
    assert found.passed
    assert not found.different
    assert found.first is None
    assert [layer.message for layer in found.layers] == ["equal"] * LAYERS
    assert all(layer.worst < 1e-6 for layer in found.layers)


def one(name, by):
    def change(tensors):
        tensors[f"bert.encoder.layer.2.{name}"][...] = by(tensors[f"bert.encoder.layer.2.{name}"])

    return change


def at(index, by):
    def change(array):
        array = array.copy()
        array[index] += by
        return array

    return change


FAULTS = {
    "b1 missing": (one("intermediate.dense.bias", lambda b: 0 * b), "b1 missing"),
    "b2 missing": (one("output.dense.bias", lambda b: 0 * b), "b2 missing"),
    "scaled": (
        lambda t: [one(f"output.dense.{name}", lambda w: 2 * w)(t) for name in ("weight", "bias")],
        "everything scaled by 2",
    ),
    "another number": (
        one("intermediate.dense.weight", at((3, 5), 0.01)),
        "W1 differs by up to 0.01 at (5, 3), 1.67 % of its largest number",
    ),
    "a bias": (one("output.dense.bias", at(6, -0.5)), "b2 differs by up to 0.5 at (6,)"),
    "rounded": (
        one("output.dense.weight", lambda w: w.astype(np.float16).astype(np.float64)),
        "it is A's rounded to float16",
    ),
    "transposed": (
        one("intermediate.dense.weight", lambda w: w.reshape(w.T.shape).T),
        "W1 transposed in memory but not in shape",
    ),
}


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
    assert {layer.cause for layer in found.layers} == {"gelu_tanh where gelu is meant"}


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


# Pairs


def entry(name, stack, layer, expert=None):
    return SimpleNamespace(name=name, stack=stack, layer=layer, expert=expert)


def paired(left, right, layer=None):
    found = pair(left, right, layer)
    return [(mine.name, other.name) for mine, other in found.both], [e.name for e in (*found.only_a, *found.only_b)]


def test_pairs_by_name_then_by_place():
    left = [entry("h.0", "main", 0), entry("h.1", "main", 1), entry("v.0", "vision", 0)]
    assert paired(left, left[::-1]) == ([("h.0", "h.0"), ("h.1", "h.1"), ("v.0", "v.0")], [])
    right = [entry("blocks.1", "main", 1), entry("blocks.0", "main", 0), entry("tower.0", "vision", 0)]
    assert paired(left, right) == ([("h.0", "blocks.0"), ("h.1", "blocks.1"), ("v.0", "tower.0")], [])
    assert paired(left[:2], [entry("e.1", "encoder", 1)]) == ([("h.1", "e.1")], ["h.0"])
    assert paired(left, [entry("x.0", "text", 0)]) == ([], ["h.0", "h.1", "v.0", "x.0"])


def test_pairs_of_experts_and_of_two_networks_in_a_layer():
    left = [*(entry(f"moe#{i}", "main", 0, i) for i in range(3)), entry("mlp", "main", 0), entry("shared", "main", 0)]
    right = [
        *(entry(f"x.{i}", "main", 0, i) for i in (2, 1, 0)), entry("dense", "main", 0), entry("other", "main", 0)
    ]  # fmt: skip
    assert paired(left, right)[0] == [
        ("moe#0", "x.0"), ("moe#1", "x.1"), ("moe#2", "x.2"), ("mlp", "dense"), ("shared", "other")
    ]  # fmt: skip


# What stands around the matrices

W = init_weights(D_MODEL, D_FF, seed=3)
X = np.random.default_rng(1).standard_normal((8, D_MODEL))
NORM = Norm("layer", np.linspace(0.5, 1.5, D_MODEL), np.linspace(-1, 1, D_MODEL), 1e-5)
PLAIN = Network(W, "gelu")
AROUND = {
    "before": (replace(PLAIN, before=NORM), "the layer normalisation before W1 only in B"),
    "after": (replace(PLAIN, after=replace(NORM, kind="rms")), "the rms normalisation after W2 only in B"),
    "residual": (replace(PLAIN, residual=True), "the residual is added only in B"),
    "scale": (replace(PLAIN, scale=0.5), "the output is scaled by 1 in A and 0.5 in B"),
}


def against(a, b):
    record = Layer("a", "b", "main", 0, None, "", "error", math.nan, math.nan)
    return against_network(record, a, b, X, "float32", lambda weights: True)


@pytest.mark.parametrize("place", AROUND)
def test_what_stands_around_differs(place):
    other, says = AROUND[place]
    assert against(other, other).status == "pass"
    found = against(PLAIN, other)
    assert found.status == "fail"
    assert says in found.cause
    assert not found.unequal


def test_norms_that_differ():
    a = replace(PLAIN, before=NORM)
    found = against(a, replace(a, before=replace(NORM, eps=1e-2)))
    assert found.cause == "the normalisation before W1 has eps 1e-05 in A and 0.01 in B"
    found = against(a, replace(a, before=replace(NORM, gamma=1.001 * NORM.gamma)))
    assert "gamma of the normalisation before W1 differs by up to 0.0015" in found.cause


KINDS = ("layer", "rms", "rms1p", "rms_of_scaled", "l2", "affine")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["before", "middle", "after"])
def test_the_bound_of_a_norm_holds_what_float32_does(kind, place):
    """Rounding of a sound network is within it, a W1 that is a hundredth off is not."""
    width = D_FF if place == "middle" else D_MODEL
    norm = Norm(kind, np.linspace(0.5, 1.5, width), np.linspace(-1, 1, width) if kind == "layer" else None, 1e-6)
    network = replace(PLAIN, **{place: norm, "residual": place == "after"})
    x = X.astype(np.float32).astype(np.float64)
    narrow = network.to(dtype="float32")
    exact = narrow.to(dtype="float64")
    y, bound = bounded(exact, x, "float32")
    np.testing.assert_allclose(y, exact(x), rtol=1e-12, atol=1e-12)
    error = np.abs(narrow(x.astype(np.float32)).astype(np.float64) - y) / bound
    assert 1e-4 < error.max() < 1.0
    off = replace(exact, weights=exact.weights._replace(W1=exact.weights.W1 + np.eye(D_MODEL, D_FF) / 100))
    assert np.max(np.abs(off(x) - y) / bound) > 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_carried_through_a_norm(kind):
    """No signs of small errors move an output further, and some move outputs a third as far on the whole."""
    random = np.random.default_rng(0)
    norm = Norm(kind, random.uniform(0.5, 1.5, 4), random.uniform(-1, 1, 4) if kind == "layer" else None, 1e-6)
    y = random.standard_normal((200, 4))
    error = 1e-6 * random.uniform(0.5, 1.5, y.shape)
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=4)))
    moved = np.max([np.abs(norm(y + sign * error) - norm(y)) for sign in signs], axis=0)
    carried = _through(norm, y, error, 0.0)
    assert np.all(moved <= carried * (1 + 1e-4))
    assert carried.sum() <= 3 * moved.sum()


# Functions


def test_a_sound_function_passes(a):
    for b in (right, lambda x, W1, b1, W2, b2: feed_forward(x, W1, b1, W2, b2, activation="gelu")):
        found = compare_models(a, b)
        assert found.passed, str(found)
        assert 0.0 < max(layer.worst for layer in found.layers) < 1.0
    assert compare_models(right, a).passed


def test_a_faulty_function_is_named(a):
    found = compare_models(a, tanh_gelu)
    assert found.b.endswith("test_compare:tanh_gelu")
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


# Inputs


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


# A large model


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


# The command


def run(capsys, *arguments):
    code = main(["compare", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_command(a, tmp_path, capsys):
    change, _ = FAULTS["b2 missing"]
    b = bert(tmp_path / "b", change)
    code, out, _ = run(capsys, a, b)
    assert code == 1
    assert "the first that differs is encoder layer 2 (bert.encoder.layer.2)" in out
    assert "because: b2 missing" in out
    assert "not passed: 3 of 4 layers agree" in out
    code, out, _ = run(capsys, a, b, "--layer", 1)
    assert code == 0
    assert "passed: 1 of 1 layers agree" in out


def test_the_command_in_json(a, tmp_path, capsys):
    change, _ = FAULTS["another number"]
    code, out, _ = run(capsys, a, bert(tmp_path / "b", change), "--json")
    told = json.loads(out)
    assert code == 1
    assert told["first"] == 2
    assert told["passed"] is False
    layer = told["layers"][2]
    assert layer["status"] == "fail"
    assert layer["unequal"][0]["weight"] == "W1"
    assert layer["unequal"][0]["place"] == [5, 3]
    assert len(layer["example"]["x"]) == D_MODEL
    assert 0.0 <= told["layers"][0]["median"] <= told["layers"][0]["worst"] < 1e-6


def test_the_command_with_a_function(a, capsys):
    assert run(capsys, a, "test_compare:right")[0] == 0
    code, out, _ = run(capsys, a, "test_compare:tanh_gelu", "--backend", "numpy", "--layer", 0)
    assert code == 1
    assert "because: gelu_tanh where gelu is meant" in out


def test_the_command_writes_a_page(a, tmp_path, capsys):
    code, _, _ = run(capsys, a, "test_compare:tanh_gelu", "--html", tmp_path / "page.html")
    assert code == 1
    assert "gelu_tanh where gelu is meant" in (tmp_path / "page.html").read_text()
    code, _, err = run(capsys, a, a, "--html", tmp_path / "no" / "page.html")
    assert code == 2
    assert f"can't be written: the folder {tmp_path / 'no'} doesn't exist; make it first" in err


@pytest.mark.parametrize(
    ("b", "more", "says"),
    [
        ("nowhere", (), "no such file or directory: nowhere"),
        ("test_compare:none", (), "B test_compare:none: test_compare has no none"),
        ("no_such_module:f", (), "no_such_module can't be imported"),
        ("test_compare:raises", (), "(bert.encoder.layer.0) can't be compared: RuntimeError: no kernel for this"),
        ("test_compare:right", ("--backend", "abacus"), "--backend must be one of numpy"),
        ("test_compare:right", ("--layer", "9"), "layer must be one of A's"),
        ("test_compare:right", ("--inputs", "nothing.safetensors"), "no such file"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_one_line(a, capsys, b, more, says):
    code, _, err = run(capsys, a, b, *more)
    assert code == 2
    assert says in err
    assert len(err.strip().splitlines()) == 1


def test_facts_of_one_side(tmp_path, capsys):
    """A bare file says no activation; A's or B's own option does, and the other keeps its own."""
    a = bert(tmp_path / "a")
    code, _, err = run(capsys, a, a / "model.safetensors")
    assert code == 2
    assert "activation" in err
    assert run(capsys, a, a / "model.safetensors", "--activation-b", "gelu")[0] == 0
    code, out, _ = run(capsys, a / "model.safetensors", a, "--activation-a", "gelu_tanh")
    assert code == 1
    assert "gelu where gelu_tanh is meant" in out
    assert "A: " in out


def test_progress_goes_to_stderr(a, capsys, monkeypatch):
    from portable_ffn.command import _progress

    monkeypatch.setattr(_progress, "SECONDS", 0.0)
    code, out, err = run(capsys, a, a, "--json")
    assert code == 0
    json.loads(out)
    assert re.match(r"1 of 4 layers: encoder layer 0 \(bert.encoder.layer.0\): .* times the bound\n2 of 4", err)


def test_a_clamped_gate(tmp_path):
    """A gate object of the checkpoint is what the function is held to."""
    weights = Weights(*(None if w is None else 4 * w for w in init_weights(D_MODEL, D_FF, gated=True, seed=1)))
    gate = ClippedGate(1.0, 1.702, 1.0)
    checkpoint.save(tmp_path / "gate.safetensors", weights, activation=gate)
    assert compare_models(tmp_path / "gate.safetensors", lambda *arrays: feed_forward(*arrays, activation=gate)).passed
    loose = replace(gate, limit=None)
    found = compare_models(tmp_path / "gate.safetensors", lambda *arrays: feed_forward(*arrays, activation=loose))
    assert found.first.cause == "no clamp"


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


def test_what_keeps_layers_from_being_compared_is_told_once_and_in_options(tmp_path, capsys):
    """A bare file says no activation: one line says it, with both options, and how many layers it keeps out."""
    a = bert(tmp_path / "a")
    code, out, err = run(capsys, a, a / "model.safetensors")
    assert code == 2
    assert out.count("not compared") == LAYERS
    assert "Undecided" not in out
    assert err.count("Undecided") == 1
    assert "--activation-a/-b gelu" in err
    assert "activation=" not in err
    assert "3 more of the 4 layers" in err
    document = json.loads(run(capsys, a, a / "model.safetensors", "--json")[1])
    assert all("--activation-a/-b" in layer["message"] for layer in document["layers"])


def test_undecided_layers_are_told_beside_a_difference(tmp_path, capsys):
    """Exit 1 is for what differs; that others were not compared stands on stderr."""

    def integers(tensors):
        tensors["model.layers.3.mlp.down_proj.weight"][...] = 1

    models = [llama(tmp_path / name, integers) for name in "ab"]
    for number, folder in enumerate(models):
        tensors = {name: array.copy() for name, array in load_file(folder / "model.safetensors").items()}
        name = "model.layers.3.mlp.down_proj.weight"
        tensors[name] = tensors[name].astype(np.int8)
        tensors["model.layers.0.mlp.down_proj.weight"][0, 0] += number
        save_file(tensors, folder / "model.safetensors")
    code, _, err = run(capsys, *models)
    assert code == 1
    assert "layer 3 (model.layers.3.mlp) can't be compared: CheckpointError" in err


def test_layers_that_a_config_counts_and_a_file_lacks(a, tmp_path, capsys):
    short = bert(tmp_path / "short", layers=3)
    (short / "config.json").write_text((a / "config.json").read_text())
    code, _, err = run(capsys, short, short)
    assert code == 0
    assert "A, " in err
    assert "B, " in err
    assert err.count("4 layers as num_hidden_layers in the config says, and layer 3 is not in the file") == 2
    assert "not in the file" not in run(capsys, a, "test_compare:right")[2]


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
