"""The facts of Vaswani et al. 2017 (section 3.3 and table 3) and Shazeer 2020, by name."""

import numpy as np
import pytest

from portable_ffn import Weights, feed_forward, hidden, init_weights, layer_norm, oracle, sublayer
from portable_ffn.testing import assert_agrees, compare

BASE, BIG = (512, 2048), (1024, 4096)


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def check(x, weights, activation="relu"):
    y = feed_forward(x, *weights, activation=activation)
    assert_agrees(y, x, *oracle.feed_forward(x, *weights, activation=activation))
    return y


@pytest.mark.parametrize(("size", "parameters"), [(BASE, 2_099_712), (BIG, 8_393_728)], ids=["base", "big"])
def test_parameters_of_one_layer_and_of_twelve(size, parameters):
    d_model, d_ff = size
    weights = Weights(
        *(np.broadcast_to(0.0, shape) for shape in ((d_model, d_ff), (d_ff,), (d_ff, d_model), (d_model,)))
    )
    assert weights.num_parameters == parameters == 2 * d_model * d_ff + d_ff + d_model
    # Six encoder and six decoder layers: the FFNs hold 25.2 of the base model's 65 million (table 3).
    assert 12 * parameters == {BASE: 25_196_544, BIG: 100_724_736}[size]
    assert (weights.d_model, weights.d_ff, weights.gated) == (d_model, d_ff, False)


@pytest.mark.parametrize("size", [BASE, BIG], ids=["base", "big"])
def test_the_sizes_of_the_paper(size):
    d_model, d_ff = size
    y = check(draw(2, 3, d_model), init_weights(d_model, d_ff))
    assert y.shape == (2, 3, d_model)


def test_positions_do_not_interact():
    x, weights = draw(6, 8), init_weights(8, 32)
    y = feed_forward(x, *weights)
    order = np.asarray([3, 0, 5, 1, 4, 2])
    _, bound = oracle.feed_forward(x, *weights)
    assert np.all(np.abs(feed_forward(x[order], *weights) - y[order]) <= bound[order])
    assert np.all(np.abs(feed_forward(x[1:], *weights) - y[1:]) <= bound[1:])
    changed = x.copy()
    changed[2] += 1.0
    moved = np.abs(feed_forward(changed, *weights) - y) > bound
    assert moved[2].any()
    assert not np.delete(moved, 2, axis=0).any()


def test_the_same_at_every_position():
    x, weights = np.tile(draw(1, 8), (5, 1)), init_weights(8, 32)
    y = feed_forward(x, *weights)
    _, bound = oracle.feed_forward(x, *weights)
    assert np.all(np.abs(y - y[:1]) <= bound)


def test_equal_to_two_convolutions_of_width_one_in_torch():
    torch = pytest.importorskip("torch", reason="the convolutions are PyTorch's")
    x, weights = torch.from_numpy(draw(2, 7, 8)), init_weights(8, 32, like=torch.zeros(1, dtype=torch.float64))
    first = torch.nn.functional.conv1d(x.mT, weights.W1.T[:, :, None], weights.b1)
    second = torch.nn.functional.conv1d(first.relu(), weights.W2.T[:, :, None], weights.b2).mT
    y, bound = oracle.feed_forward(x.numpy(), *(w.numpy() for w in weights[:4]))
    assert_agrees(second, x, y, bound)
    assert_agrees(feed_forward(x, *weights), x, y, bound)


def test_equal_to_two_convolutions_of_width_one_in_jax():
    jax = pytest.importorskip("jax", reason="the convolutions are JAX's")
    x = jax.numpy.asarray(draw(2, 7, 8))
    weights = init_weights(8, 32, like=x)
    dimensions = ("NWC", "WIO", "NWC")
    first = jax.lax.conv_general_dilated(x, weights.W1[None], (1,), "VALID", dimension_numbers=dimensions) + weights.b1
    second = jax.lax.conv_general_dilated(
        jax.nn.relu(first), weights.W2[None], (1,), "VALID", dimension_numbers=dimensions
    )
    y, bound = oracle.feed_forward(x, *weights)
    assert_agrees(second + weights.b2, x, y, bound)
    assert_agrees(feed_forward(x, *weights), x, y, bound)


def test_the_worked_example():
    """d_model 4, d_ff 8: which hidden units a position wakes, and that only their rows of W2 reach the output."""
    before = np.asarray([2.1, -0.7, 1.4, -1.2, 0.0, 0.9, -0.3, 1.8])
    x, W1, b1 = np.asarray([1.0, 0.0, 0.0, 0.0]), np.zeros((4, 8)), np.zeros(8)
    W1[0] = before
    W2, b2 = draw(8, 4), draw(4, seed=1)
    active = hidden(x, W1, b1)
    assert np.flatnonzero(active).tolist() == [0, 2, 5, 7]
    assert active[[0, 2, 5, 7]].tolist() == [2.1, 1.4, 0.9, 1.8]
    y = check(x, Weights(W1, b1, W2, b2))
    sleeping = W2.copy()
    sleeping[[1, 3, 4, 6]] = 1e6
    assert np.array_equal(feed_forward(x, W1, b1, sleeping, b2), y)
    for unit in (0, 2, 5, 7):
        without = W2.copy()
        without[unit] = 0.0
        assert not np.allclose(feed_forward(x, W1, b1, without, b2), y)


def test_without_the_nonlinearity_it_collapses_to_one_linear_map():
    x, w = draw(5, 8), init_weights(8, 32)
    W, b = w.W1 @ w.W2, w.b1 @ w.W2 + w.b2
    y, bound = oracle.feed_forward(x, *w, activation="identity")
    assert_agrees(x @ W + b, x, y, bound)
    assert_agrees(feed_forward(x, *w, activation="identity"), x, y, bound)
    # With it there is no such map: f(x) + f(-x) = 2 f(0) holds for every affine one.
    assert not np.allclose(feed_forward(x, *w) + feed_forward(-x, *w), 2 * feed_forward(0 * x, *w))


def relu(h):
    return np.maximum(h, 0)


FAULTS = {
    "relu after W2": lambda x, W1, b1, W2, b2: relu((x @ W1 + b1) @ W2 + b2),
    "relu after both": lambda x, W1, b1, W2, b2: relu(relu(x @ W1 + b1) @ W2 + b2),
    "biases swapped": lambda x, W1, b1, W2, b2: relu(x @ W1 + b2) @ W2 + b1,
    "b1 dropped": lambda x, W1, b1, W2, b2: relu(x @ W1) @ W2 + b2,
    "b2 dropped": lambda x, W1, b1, W2, b2: relu(x @ W1 + b1) @ W2,
    "mixed along the sequence": lambda x, W1, b1, W2, b2: relu(x.T @ W1 + b1).T @ W2.T + b2,
    "shifted along the sequence": lambda x, W1, b1, W2, b2: np.roll(relu(x @ W1 + b1) @ W2 + b2, 1, axis=0),
    "averaged along the sequence": lambda x, W1, b1, W2, b2: relu(x.mean(0, keepdims=True) @ W1 + b1) @ W2 + b2 + 0 * x,
    "no nonlinearity": lambda x, W1, b1, W2, b2: (x @ W1 + b1) @ W2 + b2,
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_another_answer_is_caught(fault, dtype):
    # Square in every way, so that no shape betrays the fault.
    x = draw(8, 8).astype(dtype)
    weights = [draw(*shape, seed=i).astype(dtype) for i, shape in enumerate(((8, 8), (8,), (8, 8), (8,)), start=1)]
    y, bound = oracle.feed_forward(x, *weights)
    assert compare(feed_forward(x, *weights), x, y, bound).agrees
    assert not compare(FAULTS[fault](x, *weights).astype(dtype), x, y, bound).agrees


def test_layer_norm_of_the_residual():
    x, weights, gamma, beta = draw(4, 8), init_weights(8, 32), draw(8, seed=1), draw(8, seed=2)
    y = sublayer(x, weights, lambda z: layer_norm(z, gamma, beta))
    z = x + feed_forward(x, *weights)
    mean, variance = z.mean(-1, keepdims=True), z.var(-1, keepdims=True)
    assert np.allclose(y, gamma * (z - mean) / np.sqrt(variance + 1e-5) + beta, rtol=1e-13)
    before = sublayer(x, weights, lambda z: layer_norm(z, gamma, beta), order="pre")
    assert np.allclose(before, x + feed_forward(layer_norm(x, gamma, beta), *weights), rtol=1e-13)
    assert not np.allclose(before, y)


# Shazeer 2020: FFN_ReLU, FFN_GELU and FFN_Swish (equation 3), and the five gated ones (equation 6), all without biases.
GLU_PAPER = {
    "ReLU": ("relu", False),
    "GELU": ("gelu", False),
    "Swish": ("silu", False),
    "GLU": ("sigmoid", True),
    "Bilinear": ("identity", True),
    "ReGLU": ("relu", True),
    "GEGLU": ("gelu", True),
    "SwiGLU": ("silu", True),
}


@pytest.mark.parametrize("name", GLU_PAPER)
def test_the_networks_of_the_glu_paper(name):
    from math import erf

    activation, gated = GLU_PAPER[name]
    by_hand = {
        "relu": relu,
        "gelu": lambda h: h * np.vectorize(lambda t: 0.5 * (1 + erf(t / np.sqrt(2))))(h),
        "silu": lambda h: h / (1 + np.exp(-h)),
        "sigmoid": lambda h: 1 / (1 + np.exp(-h)),
        "identity": lambda h: h,
    }[activation]
    x, w = draw(5, 8), init_weights(8, 24, gated=gated, bias=False)
    written = (by_hand(x @ w.W1) * (x @ w.V) if gated else by_hand(x @ w.W1)) @ w.W2
    y, bound = oracle.feed_forward(x, *w, activation=activation)
    assert_agrees(check(x, w, activation), x, written, bound)
    others = [other for other in GLU_PAPER.values() if other[1] == gated and other[0] != activation]
    for other, _ in others:
        assert not compare(feed_forward(x, *w, activation=other), x, y, bound).agrees
    if gated:
        swapped = feed_forward(x, w.V, None, w.W2, None, w.W1, activation=activation)
        assert compare(swapped, x, y, bound).agrees == (name == "Bilinear")  # only there both branches are alike


def test_gated_networks_keep_the_number_of_parameters():
    plain, gated = init_weights(512, bias=False), init_weights(512, gated=True, bias=False)
    assert plain.d_ff == 2048
    assert gated.d_ff == 1408  # 8/3 of 512, up to a multiple of 64
    assert abs(gated.num_parameters / plain.num_parameters - 1) < 0.04
