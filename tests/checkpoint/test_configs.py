"""Configs as people have them: silent parts, other keys, parts saved alone. Right or a question, never a guess.

The outside cases (PORTABLE_FFN_CASES) hold checkpoints whose configs are not the library's defaults, with the outputs
of the models' own code; a few small ones are here.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from portable_ffn import checkpoint
from portable_ffn.checkpoint import CheckpointError, Undecided
from tests.checkpoint.made import random, write
from tests.checkpoint.test_golden import error, on_disk

CASES = os.environ.get("PORTABLE_FFN_CASES")
D, F = 6, 10


def folders(name: str) -> list[Path]:
    """The outside cases of one kind."""
    return [] if CASES is None else sorted(path.parent for path in (Path(CASES) / name).glob("*/cases.json"))


def layers(folder: Path) -> list[tuple[str, Any, np.ndarray, np.ndarray]]:
    """Each case that an entry was found for: its path, the entry, x and the models' own y."""
    from safetensors.numpy import load_file

    cases = json.loads((folder / "cases.json").read_text())["cases"]
    data = load_file(folder / "cases.safetensors")
    entries = checkpoint.find(folder)
    told = []
    for case in cases:
        if case["form"] == "moe" or case["kind"] == "experts":
            continue
        keys = {key for recipe in case["params"].values() for key in on_disk(recipe)}
        found = [entry for entry in entries if entry.tensors and set(entry.tensors) <= keys]
        assert found or not case["in_layer_stack"], f"{case['path']} of {folder.name} is not found"
        if found:
            x = data[f"{case['name']}.x"].astype(np.float64)
            told.append((case["path"], found[0], x, data[f"{case['name']}.y64"]))
    return told


@pytest.mark.skipif(CASES is None, reason="PORTABLE_FFN_CASES, the outside cases, is unset")
@pytest.mark.parametrize("folder", folders("configs"), ids=lambda path: path.name)
def test_layers_are_right_whatever_the_config(folder):
    """Every layer, by the models' own code."""
    for path, entry, x, y in layers(folder):
        assert error(entry.load(like=x)(x), y) < 1e-12, (path, entry.evidence)


@pytest.mark.skipif(CASES is None, reason="PORTABLE_FFN_CASES, the outside cases, is unset")
@pytest.mark.parametrize("folder", folders("configs_ask"), ids=lambda path: path.name)
def test_where_it_can_t_be_known_it_is_asked(folder):
    """Prefixes cut off, parts saved alone, model types that aren't known: right, or a question."""
    for path, entry, x, y in layers(folder):
        if isinstance(entry.problem, Undecided):
            assert entry.problem.argument == "activation"
            continue
        assert error(entry.load(like=x)(x), y) < 1e-12, (path, entry.evidence)


def dense(at: str) -> dict[str, np.ndarray]:
    """fc1 and fc2 with biases."""
    return {
        f"{at}.fc1.weight": random(F, D),
        f"{at}.fc1.bias": random(F),
        f"{at}.fc2.weight": random(D, F),
        f"{at}.fc2.bias": random(D),
    }


@pytest.mark.parametrize(
    ("path", "config", "activation", "evidence"),
    [
        # The published config: nothing is said of the tower, and the root's silu is the text model's.
        (
            "visual.blocks.0.mlp",
            {"model_type": "qwen2_vl", "hidden_act": "silu", "vision_config": {"depth": 1}},
            "quick_gelu",
            "default of qwen2_vl_vision's hidden_act",
        ),
        # A part that names its own.
        (
            "visual.blocks.0.mlp",
            {"model_type": "qwen2_vl", "hidden_act": "silu", "vision_config": {"hidden_act": "relu"}},
            "relu",
            "vision_config.hidden_act = relu",
        ),
        # The whole part is absent.
        (
            "vision_model.encoder.layers.0.mlp",
            {"model_type": "clip", "text_config": {"hidden_act": "relu"}},
            "quick_gelu",
            "default of clip_vision_model's hidden_act",
        ),
        # The config under "_dict" replaces the other, and is silent.
        (
            "text_model.encoder.layers.0.mlp",
            {"model_type": "clip", "text_config": {"hidden_act": "relu"}, "text_config_dict": {"hidden_size": D}},
            "quick_gelu",
            "default of clip_text_model's hidden_act",
        ),
        # A part of a model type of its own, under another path than the default part's.
        (
            "model.vision_tower.vision_model.encoder.layers.0.mlp",
            {"model_type": "llava", "vision_config": {"model_type": "siglip_vision_model"}},
            "gelu_tanh",
            "default of siglip_vision_model's hidden_act",
        ),
        # Read from another key than the one that all others read.
        (
            "model.layers.0.mlp",
            {"model_type": "phi", "hidden_act": "relu", "activation": "tanh"},
            "relu",
            "hidden_act = relu",
        ),
    ],
)
def test_the_parts_own_config_speaks(tmp_path, path, config, activation, evidence):
    """The layer's own config, then its class's default, and never what stands in another part's."""
    (entry,) = checkpoint.find(write(tmp_path, dense(path), config))
    assert entry.problem is None, entry.problem
    assert entry.activation == activation
    assert evidence in " ".join(entry.evidence)


def test_swiglu_is_read_off_the_tensors(tmp_path):
    """A giant DINOv2's SwiGLU is fixed to SiLU; a plain one's activation is the config's."""
    at = "encoder.layer.0.mlp"
    config = {"model_type": "dinov2", "hidden_act": "gelu"}
    gated = {f"{at}.weights_in.weight": random(2 * F, D), f"{at}.weights_out.weight": random(D, F)}
    (tmp_path / "giant").mkdir()
    (entry,) = checkpoint.find(write(tmp_path / "giant", gated, config))
    assert entry.activation == "silu"
    assert "activation: silu, fixed in the code of dinov2" in entry.evidence
    (entry,) = checkpoint.find(write(tmp_path, dense(at), config))
    assert entry.activation == "gelu"


@pytest.mark.parametrize(
    ("path", "config"),
    [
        # A tower in a checkpoint of code of its own, of which nothing is said.
        ("model.vision_tower.vision_model.encoder.layers.0.mlp", {"model_type": "llava_llama", "hidden_act": "silu"}),
        # The end of a path that is the text model's as well as the tower's.
        ("encoder.layers.0.mlp", {"model_type": "clip", "text_config": {}, "vision_config": {"hidden_act": "relu"}}),
        # Several keys, of which the path says none.
        ("aifi.0.layers.0.mlp", {"activation_function": "silu", "encoder_activation_function": "gelu"}),
        # A plain "gelu" under the key of OpenAI's first GPT, where the model type is lost.
        ("transformer.h.0.mlp", {"afn": "gelu"}),
    ],
)
def test_a_neighbours_value_is_never_taken(tmp_path, path, config):
    """What isn't known is asked."""
    (entry,) = checkpoint.find(write(tmp_path, dense(path), config))
    assert isinstance(entry.problem, Undecided)
    assert entry.problem.argument == "activation"


def test_a_fact_for_one_stack(tmp_path):
    """activation={"vision": ...} settles the tower and leaves the text model to the config."""
    tower = "model.vision_tower.vision_model.encoder.layers.0.mlp"
    config = {"model_type": "llava_llama", "hidden_act": "silu"}
    path = write(tmp_path, {**dense(tower), **dense("model.layers.0.mlp")}, config)
    found = {entry.stack: entry.activation for entry in checkpoint.find(path, activation={"vision": "quickgelu"})}
    assert found == {"main": "silu", "vision+encoder": "quick_gelu"}
    with pytest.raises(ValueError, match=r"activation must be given for stacks that there are, 'main', 'vision\+enco"):
        checkpoint.find(path, activation={"audio": "gelu"})
    with pytest.raises(ValueError, match="gate must be one of 'first', 'second', 'interleaved', got 'third'"):
        checkpoint.find(path, gate={"vision": "third"})
    with pytest.raises(TypeError, match="gate must name stacks by str, got 0"):
        checkpoint.find(path, gate={0: "first"})


def test_one_expert(tmp_path):
    """expert= means one of a layer's experts, by its number."""
    at = "model.layers.0.mlp.experts"
    parts = ("gate_proj", (F, D)), ("up_proj", (F, D)), ("down_proj", (D, F))
    tensors = {f"{at}.{n}.{part}.weight": random(*shape) for n in range(3) for part, shape in parts}
    path = write(tmp_path, tensors, {"model_type": "qwen3_moe", "num_experts": 3})
    network = checkpoint.load(path, 0, expert=2)
    np.testing.assert_array_equal(network.weights.W2, tensors[f"{at}.2.down_proj.weight"].T)
    with pytest.raises(ValueError, match="expert 3 of layer 0 must mean one feed-forward network"):
        checkpoint.load(path, 0, expert=3)
    with pytest.raises(TypeError, match="expert must be an int, got '2'"):
        checkpoint.load(path, 0, expert="2")


@pytest.mark.parametrize("width", [40, 60])
def test_widths_that_a_family_makes_of_its_config(tmp_path, width):
    """LFM2 shrinks d_ff to 2/3, rounded up; another width is another model's."""
    at = "model.layers.0.feed_forward"
    tensors = {
        f"{at}.w1.weight": random(width, D),
        f"{at}.w3.weight": random(width, D),
        f"{at}.w2.weight": random(D, width),
    }
    config = {"model_type": "lfm2", "hidden_size": D, "intermediate_size": 54, "block_multiple_of": 8}
    (entry,) = checkpoint.find(write(tmp_path, tensors, config))
    if width == 40:
        assert entry.problem is None, entry.problem
    else:
        assert isinstance(entry.problem, CheckpointError)


def test_layers_of_unequal_width(tmp_path):
    """Pruned layers, each of its own width: the file itself shows them."""
    tensors = {}
    for n, width in enumerate((8, 12)):
        at = f"encoder.layer.{n}"
        tensors |= {
            f"{at}.intermediate.dense.weight": random(width, D),
            f"{at}.intermediate.dense.bias": random(width),
            f"{at}.output.dense.weight": random(D, width),
            f"{at}.output.dense.bias": random(D),
        }
    config = {"model_type": "bert", "hidden_size": D, "intermediate_size": 16, "hidden_act": "gelu"}
    entries = checkpoint.find(write(tmp_path, tensors, config))
    assert [(entry.d_ff, entry.problem) for entry in entries] == [(8, None), (12, None)]


@pytest.mark.parametrize("name", ["UNet2DConditionModel", "ControlNetModel"])
def test_act_fn_of_a_diffusion_model_is_the_residual_blocks(tmp_path, name):
    """The networks of diffusers' UNets are GEGLU, the gate second, whatever act_fn says."""
    at = "down_blocks.0.attentions.0.transformer_blocks.0.ff.net"
    W, W2 = random(2 * F, D), random(D, F)
    tensors = {f"{at}.0.proj.weight": W, f"{at}.2.weight": W2}
    path = write(tmp_path, tensors, {"_class_name": name, "act_fn": "silu"})
    network = checkpoint.load(path, 0)
    assert network.activation == "gelu"
    np.testing.assert_array_equal(network.weights.W1, W[F:].T)
    np.testing.assert_array_equal(network.weights.V, W[:F].T)
