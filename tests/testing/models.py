"""Small models of two families, with and without a fault."""

import json

import numpy as np
from safetensors.numpy import save_file

from portable_ffn import ACTIVATIONS, init_weights
from portable_ffn.checkpoint._loaded.network import Network, Norm

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


def gelu(h):
    return ACTIVATIONS["gelu"](h)


def right(x, W1, b1, W2, b2):
    return gelu(x @ W1 + b1) @ W2 + b2


def tanh_gelu(x, W1, b1, W2, b2):
    return ACTIVATIONS["gelu_tanh"](x @ W1 + b1) @ W2 + b2


def raises(x, W1, b1, W2, b2):
    raise RuntimeError("no kernel\nfor this")


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
W = init_weights(D_MODEL, D_FF, seed=3)
X = np.random.default_rng(1).standard_normal((8, D_MODEL))
NORM = Norm("layer", np.linspace(0.5, 1.5, D_MODEL), np.linspace(-1, 1, D_MODEL), 1e-5)
PLAIN = Network(W, "gelu")
