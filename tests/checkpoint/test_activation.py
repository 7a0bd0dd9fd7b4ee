"""Which activation a config means, and what is asked where it means none or two."""

import pytest

from portable_ffn import ClippedGate, checkpoint
from portable_ffn.checkpoint import Undecided
from tests.checkpoint.made import D, F, agree, gelu, gelu_tanh, random, silu, stacks, write


@pytest.mark.parametrize(
    ("config", "act"),
    [
        ({"model_type": "gemma", "hidden_act": "gelu", "hidden_activation": None}, gelu_tanh),
        ({"model_type": "llama", "hidden_act": "gelu"}, gelu),
        ({"model_type": "openai-gpt", "afn": "gelu"}, gelu_tanh),
        ({"model_type": "lfm2", "hidden_act": "gelu"}, silu),
    ],
)
def test_one_word_of_two_meanings(tmp_path, config, act):
    """Gemma's "gelu" is the tanh form; what the code fixes, the config doesn't change (L9)."""
    W1, V, W2 = random(F, D), random(F, D), random(D, F)
    names = ("w1", "w3", "w2") if config["model_type"] == "lfm2" else ("gate_proj", "up_proj", "down_proj")
    where = "feed_forward" if config["model_type"] == "lfm2" else "mlp"
    tensors = {f"model.layers.0.{where}.{n}.weight": a for n, a in zip(names, (W1, V, W2), strict=True)}
    path = write(tmp_path, tensors, config)
    if config["model_type"] == "openai-gpt":
        # Its row says Conv1D; the names are not its own, and its matrices would be (in, out).
        agree(checkpoint.load(path, layout="out_in"), lambda x: (act(x @ W1.T) * (x @ V.T)) @ W2.T)
    else:
        agree(checkpoint.load(path), lambda x: (act(x @ W1.T) * (x @ V.T)) @ W2.T)


def test_an_activation_that_nobody_knows_is_asked_for(tmp_path):
    tensors = {
        "model.layers.0.mlp.gate_proj.weight": random(F, D),
        "model.layers.0.mlp.up_proj.weight": random(F, D),
        "model.layers.0.mlp.down_proj.weight": random(D, F),
    }
    path = write(tmp_path, tensors, {"model_type": "llama", "hidden_act": "wiggly"})
    with pytest.raises(Undecided, match="'wiggly'") as caught:
        checkpoint.load(path)
    assert caught.value.argument == "activation"
    with pytest.raises(ValueError, match="nearest"):
        checkpoint.load(path, activation="gelu_tan")
    with pytest.raises(ValueError, match="gate must be one of"):
        checkpoint.load(path, gate="up_first")


def test_a_known_family_whose_config_names_no_activation(tmp_path):
    """Its config class has a default, as in the nested text_config of LLaVA 1.5; an unknown family has none."""
    tensors, config = stacks()
    del config["text_config"]["hidden_act"], config["vision_config"]["hidden_act"]
    entries = checkpoint.find(write(tmp_path, tensors, config))
    assert {entry.stack: entry.activation for entry in entries} == {"text": "silu", "vision+encoder": "quick_gelu"}
    config["text_config"]["model_type"] = "not_known"
    with pytest.raises(Undecided, match="activation"):
        checkpoint.load(write(tmp_path, tensors, config), stack="text")


@pytest.mark.parametrize(
    ("extra", "match"),
    [
        ({"swiglu_limit": 7.0}, "swiglu_limit = 7.0"),
        ({"hidden_act": None, "feed_forward_proj": "gated-gelu"}, "'gated-gelu'"),
        ({"activation_function": "relu"}, "several"),
    ],
)
def test_an_activation_of_two_meanings_in_an_unknown_family(tmp_path, extra, match):
    """A clamp that a config only hints at, T5's gelu, two keys that disagree."""
    tensors = {
        "model.layers.0.mlp.gate_proj.weight": random(F, D),
        "model.layers.0.mlp.up_proj.weight": random(F, D),
        "model.layers.0.mlp.down_proj.weight": random(D, F),
    }
    path = write(tmp_path, tensors, {"model_type": "not_known", "hidden_act": "silu"} | extra)
    with pytest.raises(Undecided, match=match) as caught:
        checkpoint.load(path)
    assert caught.value.argument == "activation"
    assert checkpoint.load(path, activation=ClippedGate(7.0)).activation == ClippedGate(7.0)
