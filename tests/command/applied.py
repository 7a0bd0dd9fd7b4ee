"""A model of a few layers, `apply` on it, and what NumPy says that it gives."""

import json

import numpy as np
import pytest

import portable_ffn as pf
from portable_ffn import oracle
from portable_ffn.__main__ import main
from portable_ffn.checkpoint import load

safetensors = pytest.importorskip("safetensors.numpy", reason="writing checkpoints needs safetensors")


def write_model(folder, d_model=8, d_ff=32, layers=2, dtype="float32"):
    """A checkpoint in BERT's layout."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for i in range(layers):
        w = pf.init_weights(d_model, d_ff, seed=i).to(dtype=dtype)
        layer = f"encoder.layer.{i}."
        tensors[layer + "intermediate.dense.weight"] = np.ascontiguousarray(w.W1.T)
        tensors[layer + "intermediate.dense.bias"] = w.b1
        tensors[layer + "output.dense.weight"] = np.ascontiguousarray(w.W2.T)
        tensors[layer + "output.dense.bias"] = w.b2
    safetensors.save_file(tensors, folder / "model.safetensors")
    config = {"model_type": "bert", "hidden_size": d_model, "intermediate_size": d_ff, "hidden_act": "gelu"}
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": layers}))
    return folder


def rows(*shape, dtype="float32", seed=0):
    return (3 * np.random.default_rng(seed).normal(size=shape)).astype(dtype)


def command(model, x, y, *more):
    return ["apply", str(model), "--input", str(x), "--output", str(y), *map(str, more)]


def run(capsys, *arguments):
    """The exit status, the JSON document, and what stderr got."""
    status = main([*command(*arguments), "--json"])
    told = capsys.readouterr()
    return status, json.loads(told.out) if told.out else None, told.err


def refused(capsys, *arguments):
    """The one line that says why not."""
    status, document, told = run(capsys, *arguments)
    assert (status, document) == (2, None)
    assert told.startswith("portable-ffn apply: ")
    assert told.count("\n") == 1
    return told


def left(folder, name="y"):
    """What stands in the folder of the output, by that name."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(f"{name}."))


def expected(model, x, layer=0, dtype=None):
    network = load(model, layer)
    return oracle.feed_forward(x, *network.weights, activation="gelu", dtype=dtype)
