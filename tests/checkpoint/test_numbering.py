"""Stacks, layers and experts: their names, numbers and order, and how long a large model takes."""

import json
import math
import time
from pathlib import Path

import numpy as np
import pytest

from portable_ffn import checkpoint
from tests.checkpoint.made import D, F, agree, gelu, random, silu, stacks, write


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
    with pytest.raises(ValueError, match=r"there are 2(.|\n)*'vision_tower.encoder.layers.1.mlp'"):
        checkpoint.load(path, layer=1)
    by_stack = checkpoint.load(path, 1, stack="text")
    by_name = checkpoint.load(path, name="language_model.model.layers.1.mlp")
    x = random(2, D)
    np.testing.assert_array_equal(by_stack(x), by_name(x))
    with pytest.raises(ValueError, match="there is none"):
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
    with pytest.raises(ValueError, match="there are 2"):
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
    """A mixture is one entry, and each of its experts one: of its own tensors, or of its slice of a stack."""
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
    (block,) = checkpoint.find(path)
    assert (block.form, block.expert, block.layer, block.name) == ("experts", None, 0, "model.layers.0.mlp")
    entries = block.experts
    assert [(e.form, e.expert, e.layer) for e in entries] == [("expert", n, 0) for n in range(3)]
    names = [f"{at}.{n}" if stored == "each" else f"{at}#{n}" for n in range(3)]
    assert [e.name for e in entries] == names
    for n, entry in enumerate(entries):
        g, u = up[n, :F], up[n, F:]
        agree(entry.load(), lambda x, g=g, u=u, n=n: (silu(x @ g.T) * (x @ u.T)) @ down[n].T)


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
    assert [len(entry.experts) for entry in checkpoint.find(tmp_path)] == 20 * [256]
    assert time.process_time() - start < 5


def test_matrices_of_experts_that_the_config_does_not_count(tmp_path):
    """LongCat's zero experts pass their input on, and a file holds two matrices of each."""
    tensors = {}
    for n in range(3):
        tensors |= {f"model.layers.0.mlp.experts.{n}.{k}_proj.weight": random(F, D) for k in ("gate", "up")}
        if n < 2:
            tensors[f"model.layers.0.mlp.experts.{n}.down_proj.weight"] = random(D, F)
    config = {"model_type": "longcat_flash", "n_routed_experts": 2, "zero_expert_num": 1}
    (block,) = checkpoint.find(write(tmp_path, tensors, config))
    assert [e.expert for e in block.experts] == [0, 1]


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
