"""A checkpoint's mixture of experts: one entry, computed whole, and what of it is refused by name."""

import numpy as np
import pytest

from portable_ffn import checkpoint
from portable_ffn.checkpoint import CheckpointError
from portable_ffn.experts import Routing
from tests.checkpoint.made import D, F, random, silu, write

E = 4
AT = "model.layers.0.mlp"


def experts(at=AT, width=D):
    """Tensors of gated experts, each under its own number, and their networks."""
    tensors, networks = {}, []
    for e in range(E):
        g, u, d = random(F, width), random(F, width), random(width, F)
        names = ("gate_proj", "up_proj", "down_proj")
        tensors |= {f"{at}.experts.{e}.{n}.weight": a for n, a in zip(names, (g, u, d), strict=True)}
        networks.append(lambda x, g=g, u=u, d=d: (silu(x @ g.T) * (x @ u.T)) @ d.T)
    return tensors, networks


def mixed(x, networks, weights, indices):
    """The weighted sum, a token at a time."""
    y = np.zeros((len(x), x.shape[1]))
    for t, token in enumerate(x):
        for w, e in zip(weights[t], indices[t], strict=True):
            y[t] += w * networks[e](token[None])[0]
    return y


def softmax(logits):
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def best(values, k):
    return np.argsort(-values, axis=-1, kind="stable")[:, :k]


def test_qwen2_moe_with_a_gated_shared_expert(tmp_path):
    tensors, networks = experts()
    shared = [random(F, D), random(F, D), random(D, F)]
    names = ("gate_proj", "up_proj", "down_proj")
    tensors |= {f"{AT}.shared_expert.{n}.weight": a for n, a in zip(names, shared, strict=True)}
    tensors |= {f"{AT}.gate.weight": random(E, D), f"{AT}.shared_expert_gate.weight": random(1, D)}
    config = {"model_type": "qwen2_moe", "hidden_act": "silu", "num_experts_per_tok": 2}
    path = write(tmp_path, tensors, config)
    (entry,) = checkpoint.find(path)
    assert (entry.name, entry.form, entry.expert, entry.layer, entry.d_model) == (AT, "experts", None, 0, D)
    assert set(entry.tensors) == set(tensors)
    net = checkpoint.load(path)
    assert net.routing == Routing(2)
    x = random(7, D)
    scores = softmax(x @ tensors[f"{AT}.gate.weight"].T)
    indices = best(scores, 2)
    expected = mixed(x, networks, np.take_along_axis(scores, indices, -1), indices)
    gate = 1 / (1 + np.exp(-x @ tensors[f"{AT}.shared_expert_gate.weight"].T))
    expected += gate * ((silu(x @ shared[0].T) * (x @ shared[1].T)) @ shared[2].T)
    np.testing.assert_allclose(net(x), expected, rtol=1e-10)
    np.testing.assert_allclose(checkpoint.load(path, expert=2)(x), networks[2](x), rtol=1e-12)
    assert repr(net).startswith("Experts(experts, E=4, Routing(top_k=2")


def test_the_bias_selects_and_does_not_weight(tmp_path):
    tensors, networks = experts()
    bias = random(E)
    tensors |= {f"{AT}.gate.weight": random(E, D), f"{AT}.gate.e_score_correction_bias": bias}
    config = {"model_type": "mimo_v2_flash", "hidden_act": "silu", "num_experts_per_tok": 2, "n_group": 1}
    path = write(tmp_path, tensors, config | {"routed_scaling_factor": 2.5, "norm_topk_prob": True})
    x = random(7, D)
    scores = 1 / (1 + np.exp(-x @ tensors[f"{AT}.gate.weight"].T))
    indices = best(scores + bias, 2)
    chosen = np.take_along_axis(scores, indices, -1)
    expected = mixed(x, networks, 2.5 * chosen / (chosen.sum(-1, keepdims=True) + 1e-20), indices)
    np.testing.assert_allclose(checkpoint.load(path)(x), expected, rtol=1e-10)
    # Without it another model would come out.
    del tensors[f"{AT}.gate.e_score_correction_bias"]
    write(tmp_path, tensors, config)
    with pytest.raises(CheckpointError, match="must hold the bias that selects experts"):
        checkpoint.load(path)


def test_a_latent_width_and_identity_experts(tmp_path):
    tensors, networks = experts()
    tensors |= {
        f"{AT}.router.classifier.weight": random(E + 2, D),
        f"{AT}.router.e_score_correction_bias": random(E + 2),
    }
    config = {"model_type": "longcat_flash", "n_routed_experts": E, "zero_expert_num": 2, "moe_topk": 3}
    path = write(tmp_path, tensors, config)
    x = random(9, D)
    scores = softmax(x @ tensors[f"{AT}.router.classifier.weight"].T)
    indices = best(scores + tensors[f"{AT}.router.e_score_correction_bias"], 3)
    every = [*networks, lambda x: x, lambda x: x]
    expected = mixed(x, every, 6 * np.take_along_axis(scores, indices, -1), indices)
    np.testing.assert_allclose(checkpoint.load(path)(x), expected, rtol=1e-10)
    assert (indices >= E).any()


@pytest.mark.parametrize(
    ("more", "config", "match"),
    [
        ({"gate.weight": (E, D)}, {"model_type": "zaya"}, "that of zaya is not"),
        ({"gate.weight": (E, D), "gate.tid2eid": (9, 2)}, {"model_type": "deepseek_v4"}, "hash routing"),
        ({}, {"model_type": "mixtral"}, "must hold its router"),
        ({"gate.weight": (E + 1, D)}, {"model_type": "mixtral"}, "a row for each of the 4 experts, got 5"),
        ({"gate.weight": (E, D), "odd.weight": (D,)}, {"model_type": "mixtral"}, "it also holds odd.weight"),
        ({"gate.weight": (E, D)}, {"model_type": "mixtral", "num_experts_per_tok": 9}, "top_k"),
        ({"gate.weight": (E, D)}, {"model_type": "mixtral", "num_experts_per_tok": "two"}, "num_experts_per_tok"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(tmp_path, more, config, match):
    tensors, _ = experts()
    tensors |= {f"{AT}.{name}": random(*shape) for name, shape in more.items()}
    path = write(tmp_path, tensors, {"hidden_act": "silu"} | config)
    with pytest.raises(ValueError, match=match):
        checkpoint.load(path, activation="silu")(random(2, D))
    # A single expert needs no router.
    assert checkpoint.load(path, expert=3, activation="silu")(random(2, D)).shape == (2, D)


def test_two_blocks_are_a_question(tmp_path):
    tensors = {}
    for stack in ("encoder", "decoder"):
        tensors |= experts(f"{stack}.layers.0.mlp")[0]
        tensors[f"{stack}.layers.0.mlp.gate.weight"] = random(E, D)
    path = write(tmp_path, tensors, {"model_type": "mixtral", "hidden_act": "silu"})
    with pytest.raises(ValueError, match="there are 2"):
        checkpoint.load(path, activation="silu")
    assert checkpoint.load(path, stack="decoder", activation="silu")(random(2, D)).shape == (2, D)
