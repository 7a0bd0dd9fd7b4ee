"""What is found in a checkpoint, on what grounds, and what is refused: small checkpoints of each pattern, made here.

The expected value is always computed by NumPy from the arrays as they were made, never by this library.
"""

import copy
import json
import math
import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from portable_ffn import ClippedGate, Weights, checkpoint, init_weights
from portable_ffn._activations.learned import PReLU
from portable_ffn.checkpoint import CheckpointError, Undecided
from portable_ffn.checkpoint._loaded.network import Network, Norm, Sublayer

D, F = 6, 10
RNG = np.random.default_rng(0)


def silu(g: np.ndarray) -> np.ndarray:
    return g / (1 + np.exp(-g))


def gelu(g: np.ndarray) -> np.ndarray:
    return 0.5 * g * (1 + np.vectorize(math.erf)(g / math.sqrt(2)))


def gelu_tanh(g: np.ndarray) -> np.ndarray:
    return 0.5 * g * (1 + np.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g**3)))


def relu(g: np.ndarray) -> np.ndarray:
    return np.maximum(g, 0)


def random(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def write(folder: Path, tensors: dict[str, np.ndarray], config: dict[str, Any] | None) -> Path:
    """A checkpoint of one file; float64 and C order, as the reference is computed."""
    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, folder / "model.safetensors")
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    return folder


def agree(net: Any, reference: Any, width: int = D) -> None:
    """The network and a function of NumPy on the same input."""
    x = random(3, width)
    np.testing.assert_allclose(net(x), reference(x), rtol=1e-11, atol=1e-12)


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


@pytest.mark.parametrize("f", [F, D], ids=["", "square"])
def test_conv1d_is_in_out(tmp_path, f):
    """GPT-2's Conv1D stores (in, out), GPT-BigCode's Linear of the same names doesn't (above)."""
    W1, b1, W2, b2 = random(D, f), random(f), random(f, D), random(D)
    names = ("c_fc.weight", "c_fc.bias", "c_proj.weight", "c_proj.bias")
    tensors = {f"h.0.mlp.{name}": a for name, a in zip(names, (W1, b1, W2, b2), strict=True)}
    path = write(tmp_path, tensors, {"model_type": "gpt2", "activation_function": "gelu_new"})
    agree(checkpoint.load(path), lambda x: gelu_tanh(x @ W1 + b1) @ W2 + b2)


def test_flax_kernels_are_in_out(tmp_path):
    """A kernel is (in, out), square or not."""
    W1, W2 = random(D, D), random(D, D)
    tensors = {
        "encoder.layer.0.intermediate.dense.kernel": W1,
        "encoder.layer.0.output.dense.kernel": W2,
        "encoder.layer.0.intermediate.dense.bias": random(D),
        "encoder.layer.0.output.dense.bias": random(D),
    }
    path = write(tmp_path, tensors, {"model_type": "bert", "hidden_act": "gelu"})
    b1, b2 = tensors["encoder.layer.0.intermediate.dense.bias"], tensors["encoder.layer.0.output.dense.bias"]
    agree(checkpoint.load(path), lambda x: gelu(x @ W1 + b1) @ W2 + b2)


HALVES = {
    "first": lambda a: (a[:F], a[F:]),
    "second": lambda a: (a[F:], a[:F]),
    "interleaved": lambda a: (a[0::2], a[1::2]),
}


@pytest.mark.parametrize("gate", list(HALVES))
def test_a_fused_matrix_of_unknown_order_is_asked_for(tmp_path, gate):
    """Three orders give three answers (L1); an unknown family's is refused, the argument settles it."""
    fused, bias, down = random(2 * F, D), random(2 * F), random(D, F)
    tensors = {
        "model.layers.0.mlp.gate_up_proj.weight": fused,
        "model.layers.0.mlp.gate_up_proj.bias": bias,
        "model.layers.0.mlp.down_proj.weight": down,
    }
    path = write(tmp_path, tensors, {"model_type": "not_known", "hidden_act": "silu"})
    with pytest.raises(Undecided, match='gate="first"') as caught:
        checkpoint.load(path)
    assert caught.value.argument == "gate"
    (g, u), (bg, bu) = HALVES[gate](fused), HALVES[gate](bias)
    agree(checkpoint.load(path, gate=gate), lambda x: (silu(x @ g.T + bg) * (x @ u.T + bu)) @ down.T)


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


@pytest.mark.parametrize("layout", ["out_in", "in_out"])
def test_a_square_matrix_of_unknown_layout_is_asked_for(tmp_path, layout):
    """No shape shows it (L2)."""
    W1, W2 = random(D, D), random(D, D)
    tensors = {"h.0.mlp.c_fc.weight": W1, "h.0.mlp.c_proj.weight": W2}
    path = write(tmp_path, tensors, {"model_type": "not_known", "hidden_act": "relu", "hidden_size": D})
    with pytest.raises(Undecided, match='layout="out_in"') as caught:
        checkpoint.load(path)
    assert caught.value.argument == "layout"
    if layout == "out_in":
        W1, W2 = W1.T, W2.T
    agree(checkpoint.load(path, layout=layout), lambda x: relu(x @ W1) @ W2)


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


@pytest.mark.parametrize("transposed", [False, True])
def test_shapes_show_the_layout_where_they_can(tmp_path, transposed):
    """A bias has its matrix's outputs' length, in any family."""
    W1, W2, b1, b2 = random(D, F), random(F, D), random(F), random(D)
    tensors = {
        "h.0.mlp.c_fc.weight": W1.T if transposed else W1,
        "h.0.mlp.c_fc.bias": b1,
        "h.0.mlp.c_proj.weight": W2.T if transposed else W2,
        "h.0.mlp.c_proj.bias": b2,
    }
    path = write(tmp_path, tensors, {"model_type": "not_known", "hidden_act": "relu"})
    agree(checkpoint.load(path), lambda x: relu(x @ W1 + b1) @ W2 + b2)
    with pytest.raises(CheckpointError, match="contradicts the shapes"):
        checkpoint.load(path, layout="in_out" if transposed else "out_in")


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


def stacks() -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """A model of a vision and a text stack."""
    tensors = {}
    for n in range(2):
        for name, shape in (("fc1", (F, D)), ("fc2", (D, F))):
            tensors[f"vision_tower.encoder.layers.{n}.mlp.{name}.weight"] = random(*shape)
            tensors[f"vision_tower.encoder.layers.{n}.mlp.{name}.bias"] = random(shape[0])
        for name, shape in (("gate_proj", (F, D)), ("up_proj", (F, D)), ("down_proj", (D, F))):
            tensors[f"language_model.model.layers.{n}.mlp.{name}.weight"] = random(*shape)
    config = {
        "model_type": "llava",
        "projector_hidden_act": "relu",
        "vision_config": {"model_type": "clip_vision_model", "hidden_act": "quick_gelu"},
        "text_config": {"model_type": "llama", "hidden_act": "silu"},
    }
    return tensors, config


def test_several_stacks_each_by_its_own_config(tmp_path):
    tensors, config = stacks()
    path = write(tmp_path, tensors, config)
    found = {entry.name: entry for entry in checkpoint.find(path)}
    assert list(found) == [
        "language_model.model.layers.0.mlp",
        "language_model.model.layers.1.mlp",
        "vision_tower.encoder.layers.0.mlp",
        "vision_tower.encoder.layers.1.mlp",
    ]
    assert [(e.stack, e.layer, e.form, e.activation) for e in found.values()] == [
        ("text", 0, "gated", "silu"),
        ("text", 1, "gated", "silu"),
        ("vision+encoder", 0, "dense", "quick_gelu"),
        ("vision+encoder", 1, "dense", "quick_gelu"),
    ]
    with pytest.raises(ValueError, match=r"means 2 of them(.|\n)*'vision_tower.encoder.layers.1.mlp'"):
        checkpoint.load(path, layer=1)
    by_stack = checkpoint.load(path, 1, stack="text")
    by_name = checkpoint.load(path, name="language_model.model.layers.1.mlp")
    x = random(2, D)
    np.testing.assert_array_equal(by_stack(x), by_name(x))
    with pytest.raises(ValueError, match="means 0 of them"):
        checkpoint.load(path, 7)


def test_two_networks_of_one_path_have_two_names(tmp_path):
    """A Q-Former's layer has two, and both share its path."""
    tensors = {}
    for kind in ("", "_query"):
        for side, shape in (("intermediate", (F, D)), ("output", (D, F))):
            tensors[f"encoder.layer.0.{side}{kind}.dense.weight"] = random(*shape)
            tensors[f"encoder.layer.0.{side}{kind}.dense.bias"] = random(shape[0])
    path = write(tmp_path, tensors, {"model_type": "blip_2_qformer", "hidden_act": "gelu"})
    names = [entry.name for entry in checkpoint.find(path)]
    assert names == ["encoder.layer.0#intermediate", "encoder.layer.0#intermediate_query"]
    W1, b1 = (tensors[f"encoder.layer.0.intermediate_query.dense.{n}"] for n in ("weight", "bias"))
    W2, b2 = (tensors[f"encoder.layer.0.output_query.dense.{n}"] for n in ("weight", "bias"))
    agree(checkpoint.load(path, name=names[1]), lambda x: gelu(x @ W1.T + b1) @ W2.T + b2)
    with pytest.raises(ValueError, match="means 2"):
        checkpoint.load(path, name="encoder.layer.0")


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "base_model.model.", "module._orig_mod."])
def test_prefixes_of_wrappers(tmp_path, prefix):
    tensors, config = stacks()
    plain = tmp_path / "plain"
    plain.mkdir()
    path = write(tmp_path, {prefix + name: array for name, array in tensors.items()}, config)
    for with_it, without in zip(checkpoint.find(path), checkpoint.find(write(plain, tensors, config)), strict=True):
        assert with_it.name == prefix + without.name
        assert (with_it.stack, with_it.layer, with_it.activation) == (without.stack, without.layer, without.activation)


def test_numbers_in_their_natural_order(tmp_path):
    tensors = {}
    for n in range(12):
        tensors |= {
            f"model.layers.{n}.mlp.{name}.weight": random(*shape)
            for name, shape in (("gate_proj", (F, D)), ("up_proj", (F, D)), ("down_proj", (D, F)))
        }
    path = write(tmp_path, tensors, {"model_type": "llama", "hidden_act": "silu"})
    assert [entry.layer for entry in checkpoint.find(path)] == list(range(12))


@pytest.mark.parametrize("stored", ["each", "stacked", "stacked in_out"])
def test_experts(tmp_path, stored):
    """Each expert is an entry: of its own tensors, or of its slice of a stack."""
    up, down = random(3, 2 * F, D), random(3, D, F)
    at = "model.layers.0.mlp.experts"
    router = {"model.layers.0.mlp.gate.weight": random(3, D)}
    config = {"model_type": "qwen3_moe", "hidden_act": "silu"}
    if stored == "each":
        tensors = {f"{at}.{e}.gate_proj.weight": up[e, :F] for e in range(3)}
        tensors |= {f"{at}.{e}.up_proj.weight": up[e, F:] for e in range(3)}
        tensors |= {f"{at}.{e}.down_proj.weight": down[e] for e in range(3)}
    else:
        turn = (0, 2, 1) if "in_out" in stored else (0, 1, 2)
        tensors = {f"{at}.gate_up_proj": up.transpose(turn), f"{at}.down_proj": down.transpose(turn)}
    path = write(tmp_path, tensors | router, config)
    entries = checkpoint.find(path)
    assert [(e.form, e.expert, e.layer) for e in entries] == [("expert", n, 0) for n in range(3)]
    names = [f"{at}.{n}" if stored == "each" else f"{at}#{n}" for n in range(3)]
    assert [e.name for e in entries] == names
    for n, entry in enumerate(entries):
        g, u = up[n, :F], up[n, F:]
        agree(entry.load(), lambda x, g=g, u=u, n=n: (silu(x @ g.T) * (x @ u.T)) @ down[n].T)


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
    entry = checkpoint.find(write(tmp_path, tensors, config))[1]
    assert entry.activation == ClippedGate(2.0, 1.702, 1.0)

    def reference(x):
        h = x @ up[1] + bias[1]
        g, u = np.minimum(h[:, 0::2], 2.0), np.clip(h[:, 1::2], -2.0, 2.0)
        return (g / (1 + np.exp(-1.702 * g)) * (u + 1)) @ down[1] + b2[1]

    agree(entry.load(), reference)
    # As released, the config has no alpha: 1.702 is in the code. Without a limit, nothing can be said.
    del config["swiglu_alpha"]
    assert checkpoint.find(write(tmp_path, tensors, config))[1].activation == ClippedGate(2.0, 1.702, 1.0)
    del config["swiglu_limit"]
    with pytest.raises(Undecided, match="swiglu_limit") as caught:
        checkpoint.find(write(tmp_path, tensors, config))[1].load()
    assert caught.value.argument == "activation"


def test_a_convolution_of_width_1_and_in_groups(tmp_path):
    W1, W2, b1, b2 = random(8, 4 // 2), random(4, 8 // 2), random(8), random(4)
    at = "transformer.encoder.layers.0"
    tensors = {
        f"{at}.intermediate.conv1d.weight": W1[..., None],
        f"{at}.intermediate.conv1d.bias": b1,
        f"{at}.output.conv1d.weight": W2[..., None],
        f"{at}.output.conv1d.bias": b2,
    }
    config = {"model_type": "squeezebert", "hidden_act": "relu", "intermediate_groups": 2, "output_groups": 2}
    net = checkpoint.load(write(tmp_path, tensors, config))

    def grouped(x, W, b):
        n = W.shape[0] // 2
        halves = np.split(x, 2, axis=-1)
        return np.concatenate([half @ W[i * n : (i + 1) * n].T for i, half in enumerate(halves)], axis=-1) + b

    agree(net, lambda x: grouped(relu(grouped(x, W1, b1)), W2, b2), width=4)


def test_what_stands_inside_belongs_to_it(tmp_path):
    """A normalisation before W1 and a residual (TimesFM), and one that takes the sum (XLNet)."""
    W1, b1, W2, b2, gamma, beta = random(F, D), random(F), random(D, F), random(D), random(D), random(D)

    def layer_norm(x, eps):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * gamma + beta

    at = "layers.0.mlp"
    tensors = {
        f"{at}.gate_proj.weight": W1,
        f"{at}.gate_proj.bias": b1,
        f"{at}.down_proj.weight": W2,
        f"{at}.down_proj.bias": b2,
        f"{at}.layer_norm.weight": gamma,
        f"{at}.layer_norm.bias": beta,
    }
    net = checkpoint.load(write(tmp_path, tensors, {"model_type": "timesfm"}))
    agree(net, lambda x: relu(layer_norm(x, 1e-6) @ W1.T + b1) @ W2.T + b2 + x)
    at = "transformer.layer.0.ff"
    tensors = {
        f"{at}.layer_1.weight": W1,
        f"{at}.layer_1.bias": b1,
        f"{at}.layer_2.weight": W2,
        f"{at}.layer_2.bias": b2,
        f"{at}.layer_norm.weight": gamma,
        f"{at}.layer_norm.bias": beta,
    }
    other = tmp_path / "xlnet"
    other.mkdir()
    net = checkpoint.load(
        write(other, tensors, {"model_type": "xlnet", "ff_activation": "gelu", "layer_norm_eps": 1e-3})
    )
    agree(net, lambda x: layer_norm(gelu(x @ W1.T + b1) @ W2.T + b2 + x, 1e-3))


def test_what_is_not_understood_inside_is_refused(tmp_path):
    """A depthwise convolution between the matrices, or a norm that no row names, is never left out."""
    at = "encoder.block.0.mlp"
    tensors = {
        f"{at}.fc1.weight": random(F, D),
        f"{at}.fc2.weight": random(D, F),
        f"{at}.dwconv.weight": random(F, 1, 3, 3),
    }
    path = write(tmp_path, tensors, {"model_type": "segformer", "hidden_act": "gelu"})
    with pytest.raises(CheckpointError, match=r"also holds encoder\.block\.0\.mlp\.dwconv\.weight"):
        checkpoint.load(path)
    other = tmp_path / "other"
    other.mkdir()
    tensors = {
        "model.layers.0.mlp.gate_proj.weight": random(F, D),
        "model.layers.0.mlp.up_proj.weight": random(F, D),
        "model.layers.0.mlp.down_proj.weight": random(D, F),
        "model.layers.0.mlp.sub_norm.weight": random(F),
    }
    path = write(other, tensors, {"model_type": "not_known", "hidden_act": "silu"})
    with pytest.raises(CheckpointError, match="sub_norm"):
        checkpoint.load(path)


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


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_loading_like_an_array(tmp_path, library):
    """The library and the dtype are those of `like`; the loaded network moves on, copies and pickles."""
    W1, V, W2 = random(F, D), random(F, D), random(D, F)
    tensors = {
        f"model.layers.0.mlp.{n}.weight": a.astype(np.float32)
        for n, a in (("gate_proj", W1), ("up_proj", V), ("down_proj", W2))
    }
    path = write(tmp_path, tensors, {"model_type": "llama", "hidden_act": "silu"})
    x = random(2, D)
    if library == "torch":
        torch = pytest.importorskip("torch", reason="torch is not installed")
        like, other = torch.from_numpy(x), torch.zeros(1, dtype=torch.bfloat16)
    elif library == "jax":
        jnp = pytest.importorskip("jax.numpy", reason="jax is not installed")
        like, other = jnp.asarray(x), jnp.zeros(1, dtype=jnp.bfloat16)
    else:
        like, other = x, np.zeros(1, dtype=np.float16)
    net = checkpoint.load(path, like=like)
    assert {str(a.dtype).removeprefix("torch.") for a in net.weights if a is not None} == {"float64"}
    assert type(net.weights.W1) is type(like)
    for twin in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net), net.to(like=like)):
        np.testing.assert_allclose(np.asarray(twin(like)), np.asarray(net(like)), rtol=1e-14)
    moved = net.to(like=other)
    assert moved.weights.W1.dtype == other.dtype
    assert moved.activation == "silu"


@pytest.mark.parametrize(
    ("activation", "gated"),
    [
        ("gelu_tanh", False),
        ("swish", True),
        (ClippedGate(7.0, 1.702, 1.0), True),
    ],
    ids=str,
)
def test_what_is_saved_is_read_back_equal(tmp_path, gated, activation):
    """Transposed and sliced views too, which safetensors' own writer scrambles (L3)."""
    weights = init_weights(D, F, gated=gated, dtype="float64")
    views = Weights(*(None if a is None else np.repeat(np.asfortranarray(a), 2, axis=0)[::2] for a in weights))
    checkpoint.save(tmp_path / "ffn.safetensors", views, activation=activation)
    net = checkpoint.load(tmp_path / "ffn.safetensors")
    for name, mine, theirs in zip(Weights._fields, weights, net.weights, strict=True):
        assert (mine is None) == (theirs is None), name
        if mine is not None:
            np.testing.assert_array_equal(mine, theirs)
            assert mine.dtype == theirs.dtype
    assert net.activation == ("silu" if activation == "swish" else activation)
    assert net.form == ("gated" if gated else "dense")


def test_a_loaded_network_is_saved_with_all_that_it_does(tmp_path):
    W1, b1, W2, b2, gamma = random(F, D), random(F), random(D, F), random(D), random(D)
    at = "layers.0.mlp"
    tensors = {
        f"{at}.gate_proj.weight": W1,
        f"{at}.gate_proj.bias": b1,
        f"{at}.down_proj.weight": W2,
        f"{at}.down_proj.bias": b2,
        f"{at}.layer_norm.weight": gamma,
        f"{at}.layer_norm.bias": gamma,
    }
    net = checkpoint.load(write(tmp_path, tensors, {"model_type": "timesfm"}))
    checkpoint.save(tmp_path / "one.safetensors", net)
    x = random(4, D)
    np.testing.assert_allclose(checkpoint.load(tmp_path / "one.safetensors")(x), net(x), rtol=1e-14)


def test_what_a_file_cannot_keep(tmp_path):
    weights = init_weights(D, F)
    path = tmp_path / "ffn.safetensors"
    with pytest.raises(TypeError, match="pass activation="):
        checkpoint.save(path, weights, activation=np.tanh)
    with pytest.raises(TypeError, match="obj must be Weights"):
        checkpoint.save(path, {"W1": weights.W1})
    checkpoint.save(path, weights)
    with pytest.raises(Undecided, match="keeps no activation") as caught:
        checkpoint.load(path)
    assert caught.value.argument == "activation"
    assert checkpoint.load(path, activation="relu").activation == "relu"


def test_the_sublayer_of_a_family_that_is_known(tmp_path):
    """LayerNorm(x + f(x)) for BERT, x + f(norm(x)) for LLaMA; elsewhere it is refused."""
    W1, b1, W2, b2, gamma, beta = random(F, D), random(F), random(D, F), random(D), random(D), random(D)
    at = "encoder.layer.0"
    tensors = {
        f"{at}.intermediate.dense.weight": W1,
        f"{at}.intermediate.dense.bias": b1,
        f"{at}.output.dense.weight": W2,
        f"{at}.output.dense.bias": b2,
        f"{at}.output.LayerNorm.weight": gamma,
        f"{at}.output.LayerNorm.bias": beta,
    }
    config = {"model_type": "bert", "hidden_act": "gelu", "layer_norm_eps": 1e-3}
    (entry,) = checkpoint.find(write(tmp_path, tensors, config))

    def reference(x):
        s = x + gelu(x @ W1.T + b1) @ W2.T + b2
        centred = s - s.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-3) * gamma + beta

    agree(entry.load_sublayer(), reference)
    (entry,) = checkpoint.find(write(tmp_path, tensors, config | {"model_type": "not_known"}))
    with pytest.raises(CheckpointError, match="not known for this family"):
        entry.load_sublayer()

    V = random(F, D)
    tensors = {
        "model.layers.0.mlp.gate_proj.weight": W1,
        "model.layers.0.mlp.up_proj.weight": V,
        "model.layers.0.mlp.down_proj.weight": W2,
        "model.layers.0.post_attention_layernorm.weight": gamma,
    }
    other = tmp_path / "llama"
    other.mkdir()
    config = {"model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-3}
    (entry,) = checkpoint.find(write(other, tensors, config))

    def pre(x):
        n = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3) * gamma
        return x + (silu(n @ W1.T) * (n @ V.T)) @ W2.T

    agree(entry.load_sublayer(), pre)


def sparse(path: Path, shapes: dict[str, tuple[int, ...]]) -> int:
    """A safetensors file whose values are a hole of the disk: its header says float32 of these shapes."""
    header, at = {}, 0
    for name, shape in shapes.items():
        end = at + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)
    return at


def test_sixty_four_gigabytes_in_a_second(tmp_path):
    """Only headers are read, and one layer reads that layer only."""
    d, f = 4096, 14336
    shapes = {
        f"model.layers.{n}.mlp.{name}.weight": shape
        for n in range(92)
        for name, shape in (("gate_proj", (f, d)), ("up_proj", (f, d)), ("down_proj", (d, f)))
    }
    size = sparse(tmp_path / "model.safetensors", shapes)
    assert size > 64e9
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "llama", "hidden_act": "silu", "hidden_size": d, "intermediate_size": f})
    )
    start = time.process_time()
    entries = checkpoint.find(tmp_path)
    assert time.process_time() - start < 1
    assert len(entries) == 92
    net = entries[90].load()
    assert (net.weights.d_model, net.weights.d_ff) == (d, f)
    assert not np.asarray(net.weights.W1).flags.owndata


def test_many_experts_in_a_few_seconds(tmp_path):
    """Twenty layers of 256 experts have fifteen thousand tensors."""
    shapes = {
        f"model.layers.{n}.mlp.experts.{e}.{name}.weight": shape
        for n in range(20)
        for e in range(256)
        for name, shape in (("gate_proj", (F, D)), ("up_proj", (F, D)), ("down_proj", (D, F)))
    }
    sparse(tmp_path / "model.safetensors", shapes)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "deepseek_v3", "hidden_act": "silu"}))
    start = time.process_time()
    assert len(checkpoint.find(tmp_path)) == 20 * 256
    assert time.process_time() - start < 5


def test_a_known_family_whose_config_names_no_activation(tmp_path):
    """Its config class has a default, as in the nested text_config of LLaVA 1.5; an unknown family has none."""
    tensors, config = stacks()
    del config["text_config"]["hidden_act"], config["vision_config"]["hidden_act"]
    entries = checkpoint.find(write(tmp_path, tensors, config))
    assert {entry.stack: entry.activation for entry in entries} == {"text": "silu", "vision+encoder": "quick_gelu"}
    config["text_config"]["model_type"] = "not_known"
    with pytest.raises(Undecided, match="activation"):
        checkpoint.load(write(tmp_path, tensors, config), stack="text")


def test_flax_linen_writes_kernels(tmp_path):
    """Parameters of a real flax module, flattened as its users do, against the module itself."""
    linen = pytest.importorskip("flax.linen", reason="flax is not installed")
    import jax
    from flax.traverse_util import flatten_dict

    class MlpBlock(linen.Module):
        @linen.compact
        def __call__(self, x):
            h = linen.gelu(linen.Dense(F, name="fc1")(x), approximate=False)
            return linen.Dense(x.shape[-1], name="fc2")(h)

    block = MlpBlock()
    x = random(3, D)
    tensors = {}
    params = []
    for n in range(2):
        params.append(block.init(jax.random.key(n), x))
        for name, array in flatten_dict(params[n]["params"], sep=".").items():
            tensors[f"encoder.layers_{n}.mlp.{name}"] = np.asarray(array)
    path = write(tmp_path, tensors, {"model_type": "not_known", "hidden_act": "gelu"})
    entries = checkpoint.find(path)
    assert [(entry.stack, entry.layer) for entry in entries] == [("encoder", 0), ("encoder", 1)]
    for entry, own in zip(entries, params, strict=True):
        np.testing.assert_allclose(entry.load()(x), block.apply(own, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_half_precision(tmp_path, library, dtype):
    """Loaded as it is, in every library that has it; float32 where that is asked for."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    half = np.dtype(getattr(ml_dtypes, dtype, dtype))
    tensors = {
        f"model.layers.0.mlp.{n}.weight": random(*shape).astype(half)
        for n, shape in (("gate_proj", (F, D)), ("up_proj", (F, D)), ("down_proj", (D, F)))
    }
    path = write(tmp_path, tensors, {"model_type": "llama", "hidden_act": "silu"})
    (entry,) = checkpoint.find(path)
    assert entry.dtype == dtype
    W1, V, W2 = (np.asarray(a, dtype=np.float64) for a in tensors.values())
    x = random(3, D).astype(half)
    wide = x.astype(np.float64)
    reference = (silu(wide @ W1.T) * (wide @ V.T)) @ W2.T
    if library == "torch":
        torch = pytest.importorskip("torch", reason="torch is not installed")
        x = torch.from_numpy(wide).to(getattr(torch, dtype))
    elif library == "jax":
        x = pytest.importorskip("jax.numpy", reason="jax is not installed").asarray(x)
    net = entry.load(like=None if library == "numpy" else x)
    assert str(net.weights.W1.dtype).removeprefix("torch.") == dtype
    y = net(x)
    assert y.dtype == x.dtype
    y = y.double().numpy() if library == "torch" else np.asarray(y).astype(np.float64)
    np.testing.assert_allclose(y, reference, rtol=0, atol=0.05 * np.abs(reference).max())
    np.testing.assert_allclose(entry.load(like=wide)(wide), reference, rtol=1e-12)


def test_eight_bits_with_their_scales(tmp_path):
    """DeepSeek's float8 with a scale a block: the layer reads both, and none is left over."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    d, f = 128, 256
    names = {"gate_proj": (f, d), "up_proj": (f, d), "down_proj": (d, f)}
    tensors, wide = {}, {}
    for name, shape in names.items():
        scales = np.abs(random(shape[0] // 128, shape[1] // 128)).astype(np.float32)
        values = random(*shape).astype(ml_dtypes.float8_e4m3fn)
        at = f"model.layers.0.mlp.{name}"
        tensors |= {f"{at}.weight": values, f"{at}.weight_scale_inv": scales}
        wide[name] = values.astype(np.float64) * np.kron(scales, np.ones((128, 128)))
    config = {
        "model_type": "deepseek_v3",
        "hidden_act": "silu",
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    }
    (entry,) = checkpoint.find(write(tmp_path, tensors, config))
    assert set(entry.tensors) == set(tensors)

    def reference(x):
        return (silu(x @ wide["gate_proj"].T) * (x @ wide["up_proj"].T)) @ wide["down_proj"].T

    x = random(2, d)
    np.testing.assert_allclose(entry.load(like=x)(x), reference(x), rtol=1e-6, atol=1e-6 * np.abs(reference(x)).max())


def test_gguf(tmp_path):
    """Files that the package gguf writes: dense layers, experts in a stack and beside it."""
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    shapes = {
        "blk.0.ffn_gate": (F, D),
        "blk.0.ffn_up": (F, D),
        "blk.0.ffn_down": (D, F),
        "blk.1.ffn_gate_exps": (3, F, D),
        "blk.1.ffn_up_exps": (3, F, D),
        "blk.1.ffn_down_exps": (3, D, F),
        "blk.1.ffn_gate_shexp": (F, D),
        "blk.1.ffn_up_shexp": (F, D),
        "blk.1.ffn_down_shexp": (D, F),
    }
    tensors = {name: random(*shape).astype(np.float32) for name, shape in shapes.items()}

    def written(architecture):
        path = tmp_path / f"{architecture}.gguf"
        writer = gguf.GGUFWriter(path, architecture)
        writer.add_embedding_length(D)
        for name, array in tensors.items():
            writer.add_tensor(f"{name}.weight", array)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    entries = checkpoint.find(written("qwen2moe"))
    assert [(e.form, e.layer, e.expert, e.activation) for e in entries] == [
        ("gated", 0, None, "silu"),
        ("expert", 1, None, "silu"),
        *(("expert", 1, n, "silu") for n in range(3)),
    ]
    x = random(4, D)
    for entry in entries:
        kind = "_shexp" if "ffn_gate_shexp.weight" in str(entry.tensors) else "" if entry.layer == 0 else "_exps"
        at = f"blk.{entry.layer}.ffn"
        W1, V, W2 = (tensors[f"{at}_{side}{kind}"] for side in ("gate", "up", "down"))
        if entry.expert is not None:
            W1, V, W2 = W1[entry.expert], V[entry.expert], W2[entry.expert]
        np.testing.assert_allclose(entry.load(like=x)(x), (silu(x @ W1.T) * (x @ V.T)) @ W2.T, rtol=1e-12)
    with pytest.raises(Undecided, match="activation"):
        checkpoint.find(written("falcon"))[0].load()


@pytest.mark.parametrize("model_type", ["llama", "not_known"])
def test_matrices_the_other_way_round_than_their_names_say(tmp_path, model_type):
    """Both shapes chain, so that only the config's widths show it: refused, and read where the layout is given."""
    W1, V, W2 = random(D, F), random(D, F), random(F, D)
    tensors = {f"model.layers.0.mlp.{n}.weight": a for n, a in (("gate_proj", W1), ("up_proj", V), ("down_proj", W2))}
    path = write(
        tmp_path, tensors, {"model_type": model_type, "hidden_act": "silu", "hidden_size": D, "intermediate_size": F}
    )
    with pytest.raises(CheckpointError, match="the other way round"):
        checkpoint.load(path)
    agree(checkpoint.load(path, layout="in_out"), lambda x: (silu(x @ W1) * (x @ V)) @ W2)


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


def test_matrices_of_experts_that_the_config_does_not_count(tmp_path):
    """LongCat's zero experts pass their input on, and a file holds two matrices of each."""
    tensors = {}
    for n in range(3):
        tensors |= {f"model.layers.0.mlp.experts.{n}.{k}_proj.weight": random(F, D) for k in ("gate", "up")}
        if n < 2:
            tensors[f"model.layers.0.mlp.experts.{n}.down_proj.weight"] = random(D, F)
    config = {"model_type": "longcat_flash", "n_routed_experts": 2, "zero_expert_num": 1}
    assert [e.expert for e in checkpoint.find(write(tmp_path, tensors, config))] == [0, 1]


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


def test_layers_of_two_kinds_may_follow_each_other(tmp_path):
    """A fused layer beside gated ones of the same path lacks nothing, and neither do they."""
    tensors = {
        "model.layers.0.mlp.gate_proj.weight": random(F, D),
        "model.layers.0.mlp.up_proj.weight": random(F, D),
        "model.layers.0.mlp.down_proj.weight": random(D, F),
        "model.layers.1.mlp.gate_up_proj.weight": random(2 * F, D),
        "model.layers.1.mlp.down_proj.weight": random(D, F),
    }
    path = write(tmp_path, tensors, {"model_type": "llama", "hidden_act": "silu"})
    assert [(e.form, e.problem) for e in checkpoint.find(path)] == [("gated", None), ("fused-gated", None)]


def llama(tmp_path: Path, **config: Any) -> Path:
    """One layer of a LLaMA."""
    shapes = {"gate_proj": (F, D), "up_proj": (F, D), "down_proj": (D, F)}
    tensors = {f"model.layers.0.mlp.{name}.weight": random(*shape) for name, shape in shapes.items()}
    said = {"model_type": "llama", "hidden_act": "silu", "hidden_size": D, "intermediate_size": F}
    return write(tmp_path, tensors, {**said, **config})


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


def test_a_layout_given_that_does_not_fit_the_config(tmp_path):
    """What was just given is not advised."""
    with pytest.raises(CheckpointError, match=r"layout='in_out' must fit config.*pass layout='out_in'") as caught:
        checkpoint.load(llama(tmp_path), layout="in_out")
    assert 'pass layout="in_out"' not in str(caught.value)


def test_a_gate_given_where_no_matrix_holds_both_branches(tmp_path):
    """In a checkpoint of several kinds of layers it may be meant for others, so that `find` only tells of it."""
    path = llama(tmp_path)
    with pytest.raises(CheckpointError, match=r"gate='second' must tell .*; leave gate= out"):
        checkpoint.load(path, gate="second")
    (entry,) = checkpoint.find(path, gate="second")
    assert entry.problem is None
    assert any("of no use" in reason for reason in entry.evidence)


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


def test_a_network_is_a_line_when_it_is_printed(tmp_path):
    told = repr(checkpoint.load(llama(tmp_path)))
    expected = f"W1: float64 {(D, F)}, W2: float64 {(F, D)}, V: float64 {(D, F)}"
    assert told == f"Network(gated, activation='silu', {expected})"
    norm = Norm("rms", np.ones(D), None, 1e-6)
    network = Network(init_weights(D, F), PReLU((0.25,) * F * 10), before=norm, residual=True, scale=0.5)
    told = repr(Sublayer(network, post=norm, factor=0.5))
    assert "before=Norm('rms', gamma: float64 (6,), eps=1e-06), residual=True, scale=0.5" in told
    assert told.endswith("post=Norm('rms', gamma: float64 (6,), eps=1e-06), factor=0.5)")
    assert len(told) < 500
