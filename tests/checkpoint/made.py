"""Small checkpoints made here, and the networks of NumPy that they are compared with."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

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


HALVES = {
    "first": lambda a: (a[:F], a[F:]),
    "second": lambda a: (a[F:], a[:F]),
    "interleaved": lambda a: (a[0::2], a[1::2]),
}


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


def llama(tmp_path: Path, **config: Any) -> Path:
    """One layer of a LLaMA."""
    shapes = {"gate_proj": (F, D), "up_proj": (F, D), "down_proj": (D, F)}
    tensors = {f"model.layers.0.mlp.{name}.weight": random(*shape) for name, shape in shapes.items()}
    said = {"model_type": "llama", "hidden_act": "silu", "hidden_size": D, "intermediate_size": F}
    return write(tmp_path, tensors, {**said, **config})
