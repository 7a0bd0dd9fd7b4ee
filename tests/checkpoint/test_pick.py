"""The one network that is meant: by path, layer and the facts that are given as arguments."""

import numpy as np
import pytest

from portable_ffn import checkpoint
from portable_ffn.checkpoint import Undecided
from tests.checkpoint.made import D, F, agree, gelu_tanh, llama, random, write


def test_a_bare_file_takes_the_facts_as_arguments(tmp_path):
    W1, W2, b1, b2 = random(F, D), random(D, F), random(F), random(D)
    tensors = {"layers.0.fc1.weight": W1, "layers.0.fc2.weight": W2, "layers.0.fc1.bias": b1, "layers.0.fc2.bias": b2}
    path = write(tmp_path, tensors, None) / "model.safetensors"
    with pytest.raises(Undecided, match="activation") as caught:
        checkpoint.load(path)
    assert caught.value.argument == "activation"
    agree(checkpoint.load(path, activation="gelu_new"), lambda x: gelu_tanh(x @ W1.T + b1) @ W2.T + b2)
    agree(checkpoint.load(path, activation=np.tanh), lambda x: np.tanh(x @ W1.T + b1) @ W2.T + b2)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"path": None}, "path must be a str or an os.PathLike, got None"),
        ({"path": b"model"}, "path must be a str or an os.PathLike, got bytes"),
        ({"activation": 3}, "activation must be a name, a gate .* got int"),
        ({"layer": "1"}, "layer must be an int, got '1'; a layer's name is passed as name="),
        ({"layer": None}, "layer must be an int, got None"),
        ({"layer": True}, "layer must be an int, got True"),
        ({"layer": 0.0}, "layer must be an int, got 0.0"),
        ({"name": 0}, "name must be a str, got 0"),
        ({"stack": 0}, "stack must be a str, got 0"),
        ({"expert": "1"}, "expert must be an int, got '1'"),
        ({"expert": True}, "expert must be an int, got True"),
    ],
    ids=str,
)
def test_an_argument_of_another_kind(tmp_path, arguments, match):
    """Told at once, in its own name: a layer "1" is not one that the checkpoint lacks."""
    with pytest.raises(TypeError, match=match):
        checkpoint.load(**{"path": llama(tmp_path), **arguments})


def test_a_number_of_numpys_is_a_layer(tmp_path):
    assert checkpoint.load(llama(tmp_path), np.int64(0)).form == "gated"


@pytest.mark.parametrize("address", ["https://huggingface.co/gpt2", "s3://models/gpt2", "hf://openai/gpt2"])
def test_an_address_is_no_path(address):
    with pytest.raises(FileNotFoundError, match=r"on this machine, got the address .*; download the checkpoint"):
        checkpoint.load(address)


def test_a_file_beside_its_config(tmp_path):
    """It is read alone; what only the config would say is asked for with a word on where it lies."""
    path = llama(tmp_path)
    with pytest.raises(Undecided, match=f"or give the directory {tmp_path}, whose config.json is not read") as caught:
        checkpoint.load(path / "model.safetensors")
    assert caught.value.argument == "activation"
    (path / "config.json").unlink()
    with pytest.raises(Undecided, match="names it; pass activation=") as caught:
        checkpoint.load(path / "model.safetensors")
    assert "config.json" not in str(caught.value)


def test_one_expert_of_a_layer(tmp_path):
    names = {"w1": (F, D), "w2": (D, F), "w3": (F, D)}
    tensors = {
        f"model.layers.0.block_sparse_moe.experts.{n}.{name}.weight": random(*shape)
        for n in range(3)
        for name, shape in names.items()
    }
    write(tmp_path, tensors, {"model_type": "mixtral", "hidden_act": "silu"})
    net = checkpoint.load(tmp_path, 0, expert=2)
    np.testing.assert_array_equal(
        net.weights.W1.T, tensors["model.layers.0.block_sparse_moe.experts.2.w1.weight"], strict=True
    )
    with pytest.raises(
        ValueError, match=r"must hold its router, and none is found under it; expert= loads one of them"
    ):
        checkpoint.load(tmp_path, 0)
    with pytest.raises(ValueError, match=r"expert 3 of layer 0 must mean one .*, and there is none"):
        checkpoint.load(tmp_path, 0, expert=3)
