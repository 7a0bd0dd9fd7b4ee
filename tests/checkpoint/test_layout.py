"""Which axis of a matrix is which, and in what order one matrix holds two branches."""

import numpy as np
import pytest

from portable_ffn import checkpoint
from portable_ffn.checkpoint import CheckpointError, Undecided
from tests.checkpoint.made import HALVES, D, F, agree, gelu, gelu_tanh, llama, random, relu, silu, write


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
