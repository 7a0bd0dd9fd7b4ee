"""The bound against sound implementations of several libraries, which stay below, and against faults, which don't."""

import math

import ml_dtypes
import numpy as np
import pytest

import portable_ffn.oracle as oracle
from tests.oracle.cases import U, excess, network, numpy_dtype, plain_numpy

# ---- soundness: what is right stays within the bound


def library_network(xp, x, W1, b1, W2, b2, V, c, act):
    """The network with a library's own product and activation."""

    def affine(x, W, b):
        return x @ W if b is None else x @ W + b

    h = act(affine(x, W1, b1))
    h = h if V is None else h * affine(x, V, c)
    return affine(h, W2, b2), h


def numpy_gelu(x):
    x = x.astype(np.float64)
    return np.vectorize(lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))), otypes=[np.float64])(x)


SHAPES = [(1, 1, 1), (6, 1, 3), (5, 2, 2), (3, 8, 32), (3, 64, 200), (2, 300, 17), (1, 7, 2000), (1, 4096, 3)]
FEW_SHAPES = [(3, 8, 32), (2, 300, 17), (1, 7, 2000)]  # for a library that compiles for each shape


def each_network(seed, dtype, shapes):
    """A network of each shape, its scale, gate and biases by turns, so that other activations see other ones."""
    for i, (tokens, d_model, d_ff) in enumerate(shapes):
        turn = seed + 3 * i
        yield network(
            100 * seed + i, d_model, d_ff, tokens=tokens, d_out=min(d_model, 16), gated=(turn // 4) % 2 == 0,
            bias=turn % 2 == 0, scale=(1e-3, 1.0, 30.0, 1e3)[turn % 4], dtype=dtype,
        )  # fmt: skip


def worst_excess(seed, dtype, name, run, shapes=SHAPES):
    """Of outputs and of hidden layers, the largest error in units of the bound, over shapes and scales."""
    out, inner = [], []
    for given in each_network(seed, dtype, shapes):
        y, h = run(given)
        out.append(excess(y, *oracle.feed_forward(*given, activation=name)))
        inner.append(excess(h, *oracle.hidden(*(given[k] for k in (0, 1, 2, 5, 6)), activation=name)))
    assert np.median(out) < 0.3
    assert np.median(inner) < 0.5
    return max(out), max(inner)


@pytest.mark.parametrize("dtype", U)
@pytest.mark.parametrize("name", ["relu", "gelu", "silu"])
def test_sums_in_order_in_the_dtype_itself_are_within_the_bound(name, dtype):
    acts = {"relu": lambda x: np.maximum(x, 0), "gelu": numpy_gelu, "silu": lambda x: x / (1 + np.exp(-x))}
    with np.errstate(all="ignore"):
        assert max(worst_excess(1, dtype, name, lambda given: plain_numpy(*given, acts[name]))) < 1


@pytest.mark.parametrize("dtype", U)
def test_pytorch_is_within_the_bound(dtype, require):
    require("torch")
    import torch

    F = torch.nn.functional
    table = {
        "relu": F.relu, "relu2": lambda x: F.relu(x).square(), "gelu": F.gelu, "silu": F.silu, "mish": F.mish,
        "selu": F.selu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
        "sigmoid": torch.sigmoid, "tanh": torch.tanh, "hard_swish": F.hardswish, "hard_sigmoid": F.hardsigmoid,
        "elu": F.elu, "leaky_relu": F.leaky_relu, "relu6": F.relu6, "softsign": F.softsign, "identity": lambda x: x,
    }  # fmt: skip

    def tensor(v):
        return None if v is None else torch.from_numpy(v.astype(np.float64)).to(getattr(torch, dtype))

    def run(act, given):
        y, h = library_network(torch, *map(tensor, given), act)
        return y.double().numpy(), h.double().numpy()

    for seed, (name, act) in enumerate(table.items()):
        worst = worst_excess(seed, dtype, name, lambda given, act=act: run(act, given))
        assert max(worst) < 1, name


@pytest.mark.parametrize("dtype", U)
def test_jax_is_within_the_bound(dtype, require):
    require("jax")
    import jax

    nn, jnp = jax.nn, jax.numpy
    table = {
        "relu": nn.relu, "gelu": lambda x: nn.gelu(x, approximate=False), "silu": nn.silu, "mish": nn.mish,
        "gelu_tanh": lambda x: nn.gelu(x, approximate=True), "softplus": nn.softplus,
    }  # fmt: skip

    def run(act, given):
        y, h = library_network(jnp, *(None if v is None else jnp.asarray(v) for v in given), act)
        assert y.dtype == numpy_dtype(dtype)
        return y, h

    for seed, (name, act) in enumerate(table.items()):
        worst = worst_excess(seed + 50, dtype, name, lambda given, act=act: run(act, given), FEW_SHAPES)
        assert max(worst) < 1, name


@pytest.mark.parametrize("size", [9, 64, 1024, 4096])
def test_one_large_term_before_many_small_ones_is_within_the_bound(size):
    rng = np.random.default_rng(size)
    x, W = rng.uniform(0, 1e-3, (4, size)), rng.uniform(0, 1, (size, 32))
    x[:, 0] = W[0] = 1.0625
    for dtype in ("float32", "float64"):
        given = (x.astype(dtype), W.astype(dtype), None, np.eye(32, dtype=dtype), None, None, None)
        assert excess(plain_numpy(*given, lambda h: h)[1], *oracle.hidden(*given[:2], activation="identity")) < 1
    if size > 1000:  # in float16 the small terms would all be lost against the large one
        given = (x.astype(np.float16), W.astype(np.float16), None, np.eye(32, dtype=np.float16), None, None, None)
        assert excess(plain_numpy(*given, lambda h: h)[1], *oracle.hidden(*given[:2], activation="identity")) > 1


@pytest.mark.parametrize("size", [1024, 4096])
def test_a_row_of_ones_in_bfloat16(size):
    x, W = np.ones((1, size), ml_dtypes.bfloat16), np.ones((size, 1), ml_dtypes.bfloat16)
    h, bound = oracle.hidden(x, W, activation="identity")
    assert h[0, 0] == size
    assert excess([[size]], h, bound) == 0
    if size == 4096:  # a sum in bfloat16 itself stands still at 256; at 1024 that is within lambda sqrt(n) no longer
        assert excess([[256.0]], h, bound) > 1.2
    assert excess([[256.0]], h, bound) > 1


def test_inputs_that_the_dtype_cannot_hold_add_their_casting_error():
    given = network(9, 8, 32)
    y, bound = oracle.feed_forward(*given, dtype="float32")
    cast = [None if v is None else v.astype(np.float32) for v in given]
    got = plain_numpy(*cast, lambda h: np.maximum(h, 0))[0]
    assert 0 < excess(got, y, bound) < 1
    _, tighter = oracle.feed_forward(*cast)
    assert np.all(tighter < bound)
    assert np.array_equal(oracle.feed_forward(*cast, dtype="float32")[1], tighter)
    wide = [None if v is None else v.astype(np.float64) for v in cast]
    assert np.array_equal(oracle.feed_forward(*wide, dtype="float32")[1], tighter)  # values count, not their dtype


# ---- sharpness: what is wrong is outside


@pytest.mark.parametrize(("d_model", "d_ff", "least"), [(8, 32, 30.0), (64, 256, 3.0)])
def test_the_wrong_gelu_shows_in_float32(d_model, d_ff, least):
    given = network(11, d_model, d_ff, tokens=64, dtype="float32")
    wrong, _ = oracle.feed_forward(*given, activation="gelu_tanh")
    assert excess(wrong, *oracle.feed_forward(*given, activation="gelu")) > least


def test_the_wrong_gelu_shows_in_the_hidden_layer_of_a_large_network():
    given = network(12, 384, 1536, tokens=16, dtype="float32")
    wrong, _ = oracle.hidden(*given[:3], activation="gelu_tanh")
    assert excess(wrong, *oracle.hidden(*given[:3], activation="gelu")) > 100
    assert (
        excess(oracle.feed_forward(*given, activation="gelu_tanh")[0], *oracle.feed_forward(*given, activation="gelu"))
        < 1
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("gated", [False, True])
def test_planted_faults_show(dtype, gated):
    given = network(13, 16, 64, tokens=6, gated=gated, dtype=dtype)
    x, W1, b1, W2, b2, V, c = given
    answer = oracle.feed_forward(*given, activation="silu")
    small = np.full_like(b2, 1e-3)

    def wrong(*arguments, activation="silu"):
        return excess(oracle.feed_forward(*arguments, activation=activation)[0], *answer)

    assert wrong(*given) == 0
    assert wrong(x, W1, b1, W2, b2 + small, V, c) > 30
    assert wrong(x, W1, b1 + np.full_like(b1, 1e-3), W2, b2, V, c) > 10
    assert wrong(x, W1, None, W2, b2, V, c) > 1000
    assert wrong(x[::-1], W1, b1, W2, b2, V, c) > 1000
    assert wrong(x, W1, b1, W2[::-1], b2, V, c) > 1000
    assert wrong(*given, activation="quick_gelu") > 1000
    if gated:
        assert wrong(x, V, c, W2, b2, W1, b1) > 1000
        assert wrong(x, W1, b1, W2, b2) > 1000
        assert wrong(x, W1, b1, W2, b2, V) > 1000


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_zeros_for_outputs_of_a_millionth_show(dtype):
    given = network(14, 8, 32, scale=1e-6, bias=False, dtype=dtype)
    for name in ("relu", "gelu", "silu"):
        y, bound = oracle.feed_forward(*given, activation=name)
        assert np.max(np.abs(y)) < 1e-5
        assert excess(np.zeros_like(y), y, bound) > 2


def test_the_bound_of_float64_is_sharp_enough_for_fourteen_digits():
    given = network(15, 8, 32)
    y, bound = oracle.feed_forward(*given, activation="gelu")
    assert np.max(bound) < 1e-14 * np.max(np.abs(y)) * 10
    assert excess(y + 1e-10, y, bound) > 1000


# ---- infinities and NaN


@pytest.mark.parametrize("name", sorted(oracle.ACTIVATIONS))
def test_nan_and_infinity_touch_their_own_row_only(name):
    x, W1, b1, W2, b2, *_ = network(16, 4, 8)
    clean, clean_bound = oracle.feed_forward(x, W1, b1, W2, b2, activation=name)
    x[1, 2], x[2, 0] = np.nan, np.inf
    y, bound = oracle.feed_forward(x, W1, b1, W2, b2, activation=name)
    assert np.isnan(y[1]).all()
    assert (bound[1] == 0).all()  # NaN is demanded there
    assert not np.isnan(bound).any()
    assert np.isfinite(bound).all()
    assert np.array_equal(y[[0, 3]], clean[[0, 3]])
    assert np.array_equal(bound[[0, 3]], clean_bound[[0, 3]])


def test_nan_where_the_oracle_is_finite_is_refused():
    y, bound = oracle.feed_forward(*network(17, 4, 8))
    assert excess(np.full_like(y, np.nan), y, bound) == np.inf


def test_overflow_of_the_dtype_is_open():
    eye = np.eye(2, dtype=np.float16)
    y, bound = oracle.feed_forward(np.ones((1, 2), np.float16), 256 * eye, None, 256 * eye, None)
    assert (y == 65536).all()
    assert np.isinf(bound).all()
    wide, bound = oracle.feed_forward(np.ones((1, 2), np.float16), 256 * eye, None, 256 * np.eye(2), None)
    assert (wide == 65536).all()
    assert np.isfinite(bound).all()


def test_a_gated_hidden_unit_that_overflows_leaves_only_its_own_row_open():
    one = np.ones((1, 1), np.float16)
    x = np.array([[300.0], [1.0]], np.float16)
    h, bound = oracle.hidden(x, one, None, one, activation="identity")
    assert h.ravel().tolist() == [90000.0, 1.0]
    assert np.isinf(bound[0, 0])
    assert np.isfinite(bound[1, 0])
    y, bound = oracle.feed_forward(x, one, None, np.full((1, 1), 0.01, np.float16), None, one, activation="identity")
    assert y[0, 0] == pytest.approx(900, rel=1e-3)
    assert np.isinf(bound[0, 0])
    assert np.isfinite(bound[1, 0])


def test_an_input_beyond_the_dtype_is_open():
    _, bound = oracle.feed_forward([[1e5], [1.0]], [[1e-3]], None, [[1.0]], None, dtype="float16")
    assert np.isinf(bound[0, 0])
    assert np.isfinite(bound[1, 0])


def test_an_infinity_times_what_may_be_zero_is_open():
    one = np.ones((1, 1), np.float32)
    x = np.array([[-150.0], [2.0]], np.float32)  # silu(-150) is 0 in float32, and 0 times inf is NaN
    h, bound = oracle.hidden(x, one, None, one, np.full(1, np.inf, np.float32), activation="silu")
    assert h.ravel().tolist() == [-np.inf, np.inf]
    assert bound.ravel().tolist() == [np.inf, 0.0]
    y, bound = oracle.feed_forward(x, one, None, np.inf * one, None, activation="silu")
    assert y.ravel().tolist() == [-np.inf, np.inf]
    assert bound.ravel().tolist() == [np.inf, 0.0]


def test_no_warning_and_no_error_at_the_ends():
    x = np.array([[-1e308], [1e308], [5e-324], [0.0]])
    with np.errstate(all="raise"):
        for name in oracle.ACTIVATIONS:
            for dtype in U:
                _, bound = oracle.feed_forward(x, [[2.0]], [1.0], [[2.0]], [1.0], activation=name, dtype=dtype)
                assert not np.isnan(bound).any()
