"""The command that compares two models: words, JSON, a page, and one line where it can't run."""

import json
import re

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from portable_ffn.__main__ import main
from tests.testing.models import D_MODEL, FAULTS, LAYERS, bert, llama

# Where functions stand that a checkpoint is compared with, by package.module:function.
MODELS = "tests.testing.models"


@pytest.fixture(scope="module")
def a(tmp_path_factory):
    return bert(tmp_path_factory.mktemp("models") / "a")


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
    assert run(capsys, a, f"{MODELS}:right")[0] == 0
    code, out, _ = run(capsys, a, f"{MODELS}:tanh_gelu", "--backend", "numpy", "--layer", 0)
    assert code == 1
    assert "because: gelu_tanh where gelu is meant" in out


def test_the_command_writes_a_page(a, tmp_path, capsys):
    code, _, _ = run(capsys, a, f"{MODELS}:tanh_gelu", "--html", tmp_path / "page.html")
    assert code == 1
    assert "gelu_tanh where gelu is meant" in (tmp_path / "page.html").read_text()
    code, _, err = run(capsys, a, a, "--html", tmp_path / "no" / "page.html")
    assert code == 2
    assert f"can't be written: the folder {tmp_path / 'no'} doesn't exist; make it first" in err


@pytest.mark.parametrize(
    ("b", "more", "says"),
    [
        ("nowhere", (), "no such file or directory: nowhere"),
        (f"{MODELS}:none", (), f"B {MODELS}:none: {MODELS} has no none"),
        ("no_such_module:f", (), "no_such_module can't be imported"),
        (f"{MODELS}:raises", (), "(bert.encoder.layer.0) can't be compared: RuntimeError: no kernel for this"),
        (f"{MODELS}:right", ("--backend", "abacus"), "--backend must be one of numpy"),
        (f"{MODELS}:right", ("--layer", "9"), "layer must be one of A's"),
        (f"{MODELS}:right", ("--inputs", "nothing.safetensors"), "no such file"),
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
    assert "because: the activation is gelu_tanh in A and gelu in B" in out
    assert "A: " in out


def test_progress_goes_to_stderr(a, capsys, monkeypatch):
    from portable_ffn.command import _progress

    monkeypatch.setattr(_progress, "SECONDS", 0.0)
    code, out, err = run(capsys, a, a, "--json")
    assert code == 0
    json.loads(out)
    assert re.match(r"1 of 4 layers: encoder layer 0 \(bert.encoder.layer.0\): .* times the bound\n2 of 4", err)


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
    assert "not in the file" not in run(capsys, a, f"{MODELS}:right")[2]
