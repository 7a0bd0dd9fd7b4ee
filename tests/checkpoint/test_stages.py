"""What stands inside a network and around it: read where it is understood, else refused."""

import numpy as np
import pytest

from portable_ffn import checkpoint
from portable_ffn.checkpoint import CheckpointError
from tests.checkpoint.made import D, F, agree, gelu, random, relu, silu, write


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
