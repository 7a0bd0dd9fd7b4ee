"""Families that are known: whatever their matrices are called, the network that they mean."""

import numpy as np
import pytest

from portable_ffn import ClippedGate, checkpoint
from portable_ffn.checkpoint import Undecided
from tests.checkpoint.made import HALVES, D, F, agree, gelu, gelu_tanh, random, relu, silu, write

# names -> (W1, V or None, W2) as they are on disk, what the config says, and the activation
LINEAR = [
    ("encoder.layer.0.intermediate.dense", None, "encoder.layer.0.output.dense", "bert", {"hidden_act": "gelu"}, gelu),
    (
        "model.layers.0.mlp.gate_proj",
        "model.layers.0.mlp.up_proj",
        "model.layers.0.mlp.down_proj",
        "llama",
        {"hidden_act": "silu"},
        silu,
    ),
    ("model.decoder.layers.0.fc1", None, "model.decoder.layers.0.fc2", "opt", {"activation_function": "relu"}, relu),
    (
        "gpt_neox.layers.0.mlp.dense_h_to_4h",
        None,
        "gpt_neox.layers.0.mlp.dense_4h_to_h",
        "gpt_neox",
        {"hidden_act": "gelu_new"},
        gelu_tanh,
    ),
    (
        "encoder.block.0.layer.1.DenseReluDense.wi",
        None,
        "encoder.block.0.layer.1.DenseReluDense.wo",
        "t5",
        {"dense_act_fn": "relu", "feed_forward_proj": "relu"},
        relu,
    ),
    (
        "encoder.block.0.layer.1.DenseReluDense.wi_0",
        "encoder.block.0.layer.1.DenseReluDense.wi_1",
        "encoder.block.0.layer.1.DenseReluDense.wo",
        "t5",
        {"feed_forward_proj": "gated-gelu"},
        gelu_tanh,
    ),
    (
        "layers.0.feed_forward.w1",
        "layers.0.feed_forward.w3",
        "layers.0.feed_forward.w2",
        "llama",
        {"hidden_act": "silu"},
        silu,
    ),
    (
        "distilbert.transformer.layer.0.ffn.lin1",
        None,
        "distilbert.transformer.layer.0.ffn.lin2",
        "distilbert",
        {"activation": "gelu"},
        gelu,
    ),
    (
        "transformer.h.0.mlp.fc_in",
        None,
        "transformer.h.0.mlp.fc_out",
        "gptj",
        {"activation_function": "gelu_new"},
        gelu_tanh,
    ),
    (
        "transformer.h.0.mlp.c_fc",
        None,
        "transformer.h.0.mlp.c_proj",
        "gpt_bigcode",
        {"activation_function": "gelu_pytorch_tanh"},
        gelu_tanh,
    ),
]


@pytest.mark.parametrize("square", [False, True], ids=["", "square"])
@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
@pytest.mark.parametrize(("w1", "v", "w2", "model_type", "config", "act"), LINEAR, ids=[row[0] for row in LINEAR])
def test_linear_names(tmp_path, w1, v, w2, model_type, config, act, bias, square):
    """(out, in) matrices, whatever they are called; square ones too, by the family's fact."""
    f = D if square else F
    W1, V, W2 = random(f, D), random(f, D), random(D, f)
    b1, c, b2 = random(f) * bias, random(f) * bias, random(D) * bias
    tensors = {f"{w1}.weight": W1, f"{w2}.weight": W2} | ({f"{v}.weight": V} if v else {})
    if bias:
        tensors |= {f"{w1}.bias": b1, f"{w2}.bias": b2} | ({f"{v}.bias": c} if v else {})
    path = write(tmp_path, tensors, {"model_type": model_type} | config)
    (entry,) = checkpoint.find(path)
    assert set(entry.tensors) == set(tensors)
    assert (entry.form, entry.d_model, entry.d_ff, entry.dtype) == ("gated" if v else "dense", D, f, "float64")
    assert entry.bias == bias

    def reference(x):
        u = x @ V.T + c if v else 1.0
        return (act(x @ W1.T + b1) * u) @ W2.T + b2

    agree(checkpoint.load(path), reference)


@pytest.mark.parametrize(
    ("model_type", "names", "gate"),
    [
        ("phi3", ("gate_up_proj", "down_proj"), "first"),
        ("gte", ("up_gate_proj", "down_proj"), "second"),
    ],
)
def test_a_known_family_knows_its_order(tmp_path, model_type, names, gate):
    fused, down = random(2 * F, D), random(D, F)
    tensors = {f"model.layers.0.mlp.{names[0]}.weight": fused, f"model.layers.0.mlp.{names[1]}.weight": down}
    path = write(tmp_path, tensors, {"model_type": model_type, "hidden_act": "silu"})
    g, u = HALVES[gate](fused)
    agree(checkpoint.load(path), lambda x: (silu(x @ g.T) * (x @ u.T)) @ down.T)


@pytest.mark.parametrize("f", [F, D], ids=["", "square"])
def test_an_unknown_family_with_names_of_one_meaning(tmp_path, f):
    """gate_proj, up_proj, down_proj are Linear's, square or not; the evidence says on what grounds."""
    W1, V, W2 = random(f, D), random(f, D), random(D, f)
    tensors = {f"model.layers.0.mlp.{n}.weight": a for n, a in (("gate_proj", W1), ("up_proj", V), ("down_proj", W2))}
    path = write(tmp_path, tensors, {"model_type": "not_known", "hidden_act": "gelu"})
    (entry,) = checkpoint.find(path)
    assert any("hidden_act = gelu" in reason for reason in entry.evidence)
    assert any("layout" in reason for reason in entry.evidence)
    agree(entry.load(), lambda x: (gelu(x @ W1.T) * (x @ V.T)) @ W2.T)


def test_gpt_oss_clips_and_interleaves(tmp_path):
    """Its gate stands in the even columns of (in, out) stacks with biases, clamped by the config's limit."""
    up, bias, down, b2 = 3 * random(2, D, 2 * F), random(2, 2 * F), random(2, F, D), random(2, D)
    at = "model.layers.0.mlp.experts"
    tensors = {
        f"{at}.gate_up_proj": up,
        f"{at}.gate_up_proj_bias": bias,
        f"{at}.down_proj": down,
        f"{at}.down_proj_bias": b2,
    }
    config = {"model_type": "gpt_oss", "hidden_act": "silu", "swiglu_limit": 2.0, "swiglu_alpha": 1.702}
    (block,) = checkpoint.find(write(tmp_path, tensors, config))
    entry = block.experts[1]
    assert entry.activation == ClippedGate(2.0, 1.702, 1.0)

    def reference(x):
        h = x @ up[1] + bias[1]
        g, u = np.minimum(h[:, 0::2], 2.0), np.clip(h[:, 1::2], -2.0, 2.0)
        return (g / (1 + np.exp(-1.702 * g)) * (u + 1)) @ down[1] + b2[1]

    agree(entry.load(), reference)
    # As released, the config has no alpha: 1.702 is in the code. Without a limit, nothing can be said.
    del config["swiglu_alpha"]
    assert checkpoint.find(write(tmp_path, tensors, config))[0].activation == ClippedGate(2.0, 1.702, 1.0)
    del config["swiglu_limit"]
    with pytest.raises(Undecided, match="swiglu_limit") as caught:
        checkpoint.load(write(tmp_path, tensors, config), expert=1)
    assert caught.value.argument == "activation"
