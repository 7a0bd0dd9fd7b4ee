"""What is loaded: its library, dtype and stored form, and what a file of it keeps."""

import copy
import pickle

import numpy as np
import pytest

from portable_ffn import ClippedGate, Weights, checkpoint, init_weights
from portable_ffn._activations.learned import PReLU
from portable_ffn.checkpoint import Undecided
from portable_ffn.checkpoint._loaded.network import Network, Norm, Sublayer
from tests.checkpoint.made import D, F, llama, random, silu, write


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

    dense, block = checkpoint.find(written("qwen2moe"))
    assert [(e.form, e.layer, e.expert) for e in (dense, block)] == [("gated", 0, None), ("experts", 1, None)]
    entries = [dense, block.shared, *block.experts]
    assert [(e.form, e.layer, e.expert, e.activation) for e in entries[1:]] == [
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


@pytest.mark.parametrize(("architecture", "summed"), [("qwen2moe", False), ("qwen3moe", True), ("deepseek2", True)])
def test_the_whole_mixture_of_a_gguf_file(tmp_path, architecture, summed):
    """Its router, the gate of what is shared, and what the metadata or the architecture say of the weights."""
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    shapes = {"gate_exps": (3, F, D), "up_exps": (3, F, D), "down_exps": (3, D, F), "gate_inp": (3, D)}
    tensors = {name: random(*shape).astype(np.float32) for name, shape in shapes.items()}
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", architecture)
    writer.add_embedding_length(D)
    writer.add_expert_used_count(2)
    if architecture == "deepseek2":
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        writer.add_expert_weights_norm(True)
        writer.add_expert_weights_scale(2.5)
        writer.add_tensor("blk.0.exp_probs_b.bias", np.array([0.0, 5.0, 0.0], np.float32))
    for name, array in tensors.items():
        writer.add_tensor(f"blk.0.ffn_{name}.weight", array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    x = random(5, D)
    logits = x @ tensors["gate_inp"].T.astype(np.float64)
    bias = np.array([0.0, 5.0, 0.0]) if architecture == "deepseek2" else np.zeros(3)
    scores = 1 / (1 + np.exp(-logits)) if architecture == "deepseek2" else np.exp(logits)
    scores = scores if architecture == "deepseek2" else scores / scores.sum(-1, keepdims=True)
    expected = np.zeros((5, D))
    for t in range(5):
        chosen = np.argsort(-(scores[t] + bias), kind="stable")[:2]
        weights = scores[t, chosen] / (scores[t, chosen].sum() if summed else 1)
        for w, e in zip(weights * (2.5 if architecture == "deepseek2" else 1), chosen, strict=True):
            g, u, d = (tensors[f"{k}_exps"][e].astype(np.float64) for k in ("gate", "up", "down"))
            expected[t] += w * ((silu(x[t] @ g.T) * (x[t] @ u.T)) @ d.T)
    net = checkpoint.load(tmp_path / "model.gguf", like=x)
    np.testing.assert_allclose(net(x), expected, rtol=1e-6)


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
