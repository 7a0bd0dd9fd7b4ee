"""A bad layer is an entry with its problem, and never hides a good one; what has no problem loads and computes."""

import json
import os
import sys
import types

import numpy as np
import pytest

from portable_ffn import checkpoint
from portable_ffn.checkpoint import CheckpointError
from tests.checkpoint.bases import BASES, D, F, tensor

ODD = np.ones


def bad_one(folder, base, name, array):
    """The entries of a checkpoint of two layers of which the first has another tensor under a name of its own."""
    made = BASES[base].copy()
    assert name in made.tensors
    made.tensors[name] = tensor(array.astype("<f4"))
    return checkpoint.find(made.write(folder))


GATE = "model.layers.0.mlp.experts.gate_up_proj"
CASES = {
    "a matrix of one axis": ("llama", "model.layers.0.mlp.down_proj.weight", ODD(D * F)),
    "a matrix of three axes": ("llama", "model.layers.0.mlp.down_proj.weight", ODD((D, F, 2))),
    "a matrix of no axes": ("llama", "model.layers.0.mlp.down_proj.weight", ODD(())),
    "another width": ("llama", "model.layers.0.mlp.up_proj.weight", ODD((F + 1, D))),
    "no numbers": ("llama", "model.layers.0.mlp.up_proj.weight", ODD((0, D))),
    "a bias of no axes": ("bert", "encoder.layer.0.intermediate.dense.bias", ODD(())),
    "a bias of two axes": ("bert", "encoder.layer.0.output.dense.bias", ODD((1, D))),
    "a bias of another length": ("bert", "encoder.layer.0.output.dense.bias", ODD(D + 1)),
    "a norm of two axes": ("bitnet", "model.layers.0.mlp.ffn_sub_norm.weight", ODD((F, F))),
    "slopes of another number": ("prelu", "h.0.mlp.act.weight", ODD(F + 1)),
    "a number that is a vector": ("apertus", "model.layers.0.mlp.act_fn.beta", ODD(2)),
    "fewer biases than experts": ("gpt_oss", GATE + "_bias", ODD((1, 2 * F))),
    "fewer gates than experts": ("gpt_oss", GATE, ODD((1, D, 2 * F))),
    "no expert at all": ("gpt_oss", "model.layers.0.mlp.experts.down_proj", ODD((0, F, D))),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_layer_beside_a_good_one(tmp_path, case):
    base, name, array = CASES[case]
    found = bad_one(tmp_path, base, name, array)
    bad = [entry for entry in found if entry.layer == 0]
    good = [entry for entry in found if entry.layer == 1]
    assert bad
    assert good
    for entry in bad:
        assert isinstance(entry.problem, CheckpointError)
        assert "not foreseen" not in str(entry.problem)
        with pytest.raises(CheckpointError):
            entry.load()
    for entry in good:
        assert entry.problem is None
        assert entry.load()(ODD((3, D), np.float32)).shape == (3, D)


def test_a_name_that_counts_no_layer(tmp_path):
    """Digits that Python takes for numbers and `int` does not, and more digits than any number has."""
    made = BASES["mixtral"].copy()
    for name, held in list(made.tensors.items()):
        for part in ("\u00b2", "9" * 5000):
            made.tensors[name.replace("experts.0", f"experts.{part}")] = held
    found = checkpoint.find(made.write(tmp_path))
    assert [entry.layer for entry in found] == [0, 1]
    assert not any("not foreseen" in str(entry.problem) for entry in found)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_act", json.loads("[" * 60 + "]" * 60)),
        ("hidden_size", 10**250),
        ("rms_norm_eps", -1),
        ("mlp_bias", True),
        ("model_type", ["llama"]),
    ],
    ids=["a deep hidden_act", "a width of 251 digits", "a negative eps", "a bias that is missing", "a list of types"],
)
def test_a_config_that_says_an_odd_thing(tmp_path, key, value):
    made = BASES["bitnet" if key == "rms_norm_eps" else "llama"].copy()
    made.config[key] = value
    found = checkpoint.find(made.write(tmp_path))
    assert [entry.layer for entry in found] == [0, 1]
    for entry in found:
        if entry.problem is None:
            assert entry.load()(ODD((3, D), np.float32)).shape == (3, D)
        else:
            assert "not foreseen" not in str(entry.problem)
            assert len(str(entry.problem)) < 1500


@pytest.mark.parametrize("digits", [301, 401, 5000])
def test_numbers_that_no_model_has(tmp_path, digits):
    made = BASES["llama"].copy()
    path = made.write(tmp_path)
    for number in ("9" * digits, f"0.{'9' * digits}"):
        (path / "config.json").write_text(f'{{"model_type": "llama", "hidden_size": {number}}}')
        with pytest.raises(CheckpointError, match="numbers of 300 digits at most"):
            checkpoint.find(path)


def test_a_norm_beside_the_layer_is_checked_too(tmp_path):
    """`load` takes the network, which is whole; only `load_sublayer` needs the norm."""
    first, second = bad_one(tmp_path, "bert", "encoder.layer.0.output.LayerNorm.bias", ODD((D, 1)))
    assert first.load()(ODD((3, D), np.float32)).shape == (3, D)
    with pytest.raises(CheckpointError, match=r"LayerNorm.bias must have shape \(4,\), got \(4, 1\)"):
        first.load_sublayer()
    assert second.load_sublayer()(ODD((3, D), np.float32)).shape == (3, D)


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="the system shows no memory of a process as a file")
def test_a_file_that_the_system_will_not_read(tmp_path):
    (tmp_path / "model.safetensors").symlink_to("/proc/self/mem")
    with pytest.raises(CheckpointError, match="can't be read"):
        checkpoint.find(tmp_path)


def test_a_gate_object_where_there_is_one_branch(tmp_path):
    from portable_ffn import ClippedGate

    path = BASES["bert"].write(tmp_path)
    for entry in checkpoint.find(path, activation=ClippedGate(7.0)):
        assert "function of one array" in str(entry.problem)


@pytest.mark.parametrize(
    "pattern", ["re:(a+)+$", "re:(a|a)*$", "re:a*a*a*a*a*b", "re:(.*)(?=a)\\1", "re:((a?){20}){20}b", "re:("]
)
def test_patterns_of_a_config_are_quick(tmp_path, pattern):
    """compressed-tensors names layers by patterns, and a pattern may be made to take for ever."""
    from portable_ffn.checkpoint._tensors.scheme import Scheme

    groups = {"group_0": {"targets": [pattern], "weights": {"num_bits": 4}}}
    assert Scheme("compressed-tensors", {"config_groups": groups}).weights_of("a" * 60 + "c") == {}
    groups["group_0"]["targets"] = ["re:.*mlp\\.(gate|up|down)_proj$"]
    assert Scheme("compressed-tensors", {"config_groups": groups}).weights_of("layers.0.mlp.up_proj")["num_bits"] == 4


def test_quantised_tensors_without_axes(tmp_path):
    """One layer of a format doesn't fit; the other is read."""
    made = BASES["fp8"].copy()
    name = "model.layers.0.mlp.up_proj.weight"
    made.tensors[name] = made.tensors[name]._replace(shape=(), data=b"\0")
    bad, good = checkpoint.find(made.write(tmp_path))
    assert "not foreseen" not in str(bad.problem)
    assert good.problem is None
    assert good.load()(ODD((3, D), np.float32)).shape == (3, D)


@pytest.mark.parametrize(
    ("held", "words"), [(None, r"pip install portable-ffn\[checkpoint\]"), ("old", "a newer ml_dtypes")]
)
def test_a_package_that_is_missing_or_old(monkeypatch, held, words):
    from portable_ffn.checkpoint._files.dtypes import numpy_dtype

    monkeypatch.setitem(sys.modules, "ml_dtypes", None if held is None else types.ModuleType("ml_dtypes"))
    with pytest.raises(CheckpointError, match=words):
        numpy_dtype("bfloat16")
