"""Shapes, layers and configs that contradict each other, and files that hold no network."""

import pytest

from portable_ffn import checkpoint
from portable_ffn.checkpoint import CheckpointError
from tests.checkpoint.made import D, F, random, write


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"intermediate_size": F + 1}, "d_ff = 11 as intermediate_size"),
        ({"hidden_size": D + 1}, "d_model = 7 as hidden_size"),
    ],
)
def test_a_shape_that_differs_from_the_config(tmp_path, change, match):
    """It is an error, never broadcast or made anew (L6)."""
    tensors = {
        "model.layers.0.mlp.gate_proj.weight": random(F, D),
        "model.layers.0.mlp.up_proj.weight": random(F, D),
        "model.layers.0.mlp.down_proj.weight": random(D, F),
    }
    config = {"model_type": "llama", "hidden_act": "silu", "hidden_size": D, "intermediate_size": F}
    assert checkpoint.load(write(tmp_path, tensors, config)).weights.d_ff == F
    with pytest.raises(CheckpointError, match=match):
        checkpoint.load(write(tmp_path, tensors, config | change))


@pytest.mark.parametrize(("name", "shape"), [("fc2.weight", (D, F + 1)), ("fc1.bias", (F + 1,)), ("fc2.bias", (F,))])
def test_shapes_that_contradict_each_other(tmp_path, name, shape):
    tensors = {"fc1.weight": random(F, D), "fc1.bias": random(F), "fc2.weight": random(D, F), "fc2.bias": random(D)}
    tensors[name] = random(*shape)
    path = write(
        tmp_path,
        {f"model.decoder.layers.0.{k}": a for k, a in tensors.items()},
        {"model_type": "opt", "activation_function": "relu"},
    )
    with pytest.raises(CheckpointError, match="must have"):
        checkpoint.load(path)


def test_nothing_that_is_known(tmp_path):
    path = write(tmp_path, {"embedding.weight": random(3, D)}, {"model_type": "llama"})
    assert checkpoint.find(path) == []
    with pytest.raises(CheckpointError, match="must hold a feed-forward layer"):
        checkpoint.load(path)


def test_attention_and_mamba_are_no_networks(tmp_path):
    """in_proj and out_proj of a mixer, a conformer's gated convolution and a router have the right shapes by chance."""
    at = "backbone.layers.0"
    tensors = {
        f"{at}.mixer.in_proj.weight": random(2 * F, D),
        f"{at}.mixer.out_proj.weight": random(D, F),
        f"{at}.conv_module.pointwise_conv1.weight": random(2 * D, D, 1),
        f"{at}.conv_module.pointwise_conv2.weight": random(D, D, 1),
        f"{at}.mlp.router.fc1.weight": random(F, D),
        f"{at}.mlp.router.fc2.weight": random(D, F),
    }
    assert checkpoint.find(write(tmp_path, tensors, {"model_type": "mamba", "hidden_act": "silu"})) == []


@pytest.mark.parametrize("also", [(), ("down_proj.weight",), ("gate_proj.weight",)], ids=str)
@pytest.mark.parametrize("lost", ["up_proj.weight", "gate_proj.weight", "up_proj.bias", "down_proj.weight"])
def test_a_layer_that_lacks_what_the_others_have(tmp_path, lost, also):
    """Without its linear branch a gated layer would look like a dense one; it is refused, the others load.

    It is listed all the same, however little is left of it.
    """
    tensors = {}
    for n in range(3):
        for name, shape in (("gate_proj", (F, D)), ("up_proj", (F, D)), ("down_proj", (D, F))):
            tensors |= {
                f"model.layers.{n}.mlp.{name}.weight": random(*shape),
                f"model.layers.{n}.mlp.{name}.bias": random(shape[0]),
            }
    for name in {lost, *also}:
        del tensors[f"model.layers.1.mlp.{name}"]
    path = write(tmp_path, tensors, {"model_type": "llama", "hidden_act": "silu"})
    assert [(e.layer, e.problem is None) for e in checkpoint.find(path)] == [(0, True), (1, False), (2, True)]
    assert checkpoint.load(path, 0).form == "gated"
    assert checkpoint.load(path, 2).form == "gated"
    with pytest.raises(CheckpointError, match=f"model.layers.1.mlp.{lost}( is|,)"):
        checkpoint.load(path, 1)
