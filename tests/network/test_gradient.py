"""`feed_forward_vjp` on every library against the oracle's gradient, PyTorch's autograd and jax.vjp."""

import warnings

import numpy as np
import pytest

from portable_ffn import ACTIVATIONS, ClippedGate, feed_forward, feed_forward_vjp, oracle
from portable_ffn._arrays.dtype import dtype_name
from portable_ffn.testing import BACKENDS
from tests.network.gradients import GPT_OSS, agrees, case, check, put, world

NAMES = sorted(ACTIVATIONS)
LIBRARIES = ("numpy", "numpy:generic", "array-api-strict", "dask", "mlx", "torch", "jax")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", LIBRARIES)
def test_every_activation_plain_and_gated(name, dtype, require):
    require(name)
    for k, activation in enumerate(NAMES):
        if name == "dask" and k % 4 != (dtype == "float32"):
            continue  # a graph takes a quarter of a second: each name is computed by NumPy in the end
        for gated in (False, True) if name.startswith("numpy") else (k % 2 == 0,):
            check(name, case(k, gated=gated, bias=k % 3 > 0, dtype=dtype), activation, dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", [name for name in LIBRARIES if name != "array-api-strict"])
def test_half_precision(name, dtype, require):
    require(name)
    for activation, gated in (("relu", False), ("gelu", False), ("silu", True), ("gelu_tanh", True), ("mish", False)):
        if name == "dask" and activation in ("gelu_tanh", "mish"):
            continue
        check(name, case(3, gated=gated, dtype=dtype), activation, dtype)


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_clipped_gate(name, require):
    require(name)
    gates = (GPT_OSS, ClippedGate(0.5, clip="after"), ClippedGate(0.5), ClippedGate(None, offset=1.0))
    for gate in gates[:1] if name == "dask" else gates:
        check(name, case(5, gated=True, scale=4.0), gate)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", [name for name in LIBRARIES if name != "array-api-strict"])
def test_sums_over_many_tokens_are_made_in_float32(name, dtype, require):
    """5000 ones are 5000, where a sum in half precision stays at 2048 or 256."""
    require(name)
    x, W1, b1, W2, b2, dy = put(
        name,
        [np.ones((5000, 1)), np.ones((1, 1)), np.zeros(1), np.ones((1, 1)), np.zeros(1), np.ones((5000, 1))],
        dtype,
    )
    with world(name):
        _, pullback = feed_forward_vjp(x, W1, b1, W2, b2)
        _, gradient = pullback(dy)
    for part in ("W1", "b1", "W2", "b2"):
        assert BACKENDS[name].take(getattr(gradient, part)).item() == pytest.approx(5000, rel=2**-8), part


@pytest.mark.parametrize("activation", NAMES)
def test_as_autograd_of_pytorch_and_jax(activation, require):
    """Within the bound of what the two frameworks' own differentiation makes of the network."""
    require("torch"), require("jax")
    import jax
    import torch

    *given, dy = case(11, gated=NAMES.index(activation) % 2 == 0)
    _, bound = oracle.vjp(*given, dy, activation=activation)
    _, pullback = feed_forward_vjp(*given, activation=activation)
    ours = pullback(dy)
    tensors = [None if v is None else torch.tensor(v, requires_grad=True) for v in given]
    feed_forward(*tensors, activation=activation).backward(torch.tensor(dy))
    agrees(ours, given, ([None if t is None else t.grad.numpy() for t in tensors], bound))
    held = [jax.numpy.asarray(v) for v in given if v is not None]
    found = jax.vjp(lambda *arrays: feed_forward(*arrays, activation=activation), *held)[1](jax.numpy.asarray(dy))
    parts = iter(found)
    agrees(ours, given, ([None if v is None else np.asarray(next(parts)) for v in given], bound))


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0), (2, 1, 3, 2)])
def test_any_number_of_leading_axes(name, shape, require):
    require(name)
    for gated in (True,) if name in ("dask", "jax") else (False, True):
        y, (dx, gradient) = check(name, case(7, shape=shape, gated=gated), "gelu_tanh")
        assert y.shape == (*shape, 4)
        assert dx.shape == (*shape, 5)
        if 0 in shape:
            assert all(not BACKENDS[name].take(d).any() for d in gradient if d is not None)


@pytest.mark.parametrize("name", LIBRARIES)
def test_no_hidden_units(name, require):
    require(name)
    _, (dx, gradient) = check(name, case(7, d_ff=0, gated=True), "silu")
    assert not BACKENDS[name].take(dx).any()
    assert gradient.W1.shape == (5, 0)


def test_each_gradient_has_the_dtype_of_its_argument(require):
    for name in ("numpy", "torch", "jax", "mlx"):
        require(name)
        *given, dy = case(2, gated=True, dtype="float32")
        dtypes = ("float16", "float64", "float32", "bfloat16", "float32", "float32", "float64")
        arguments = [BACKENDS[name].put(np.asarray(v, "float64"), d) for v, d in zip(given, dtypes, strict=True)]
        given = [BACKENDS[name].take(a) for a in arguments]
        with world(name):
            y, pullback = feed_forward_vjp(*arguments, activation="gelu")
            gradients = pullback(BACKENDS[name].put(dy.astype("float64"), "float32"))
        assert dtype_name(y.dtype) == "float64"
        expected = oracle.vjp(*(arguments if name == "numpy" else _as_numpy(given, dtypes)), dy, activation="gelu")
        agrees(gradients, arguments, expected, dtypes)


def _as_numpy(values, dtypes):
    """NumPy's arrays of those dtypes."""
    return [BACKENDS["numpy"].put(v, d) for v, d in zip(values, dtypes, strict=True)]


@pytest.mark.parametrize("name", ["numpy", "torch", "jax", "mlx", "array-api-strict", "dask"])
def test_integers_have_gradients_in_the_dtype_of_the_result(name, require):
    require(name)
    *given, dy = case(4, dtype="float32")
    whole = np.asarray([[1, -2, 3, 0, 2], [4, 1, 0, -1, 1]], "int32")
    dy = np.asarray([[1, 2, 3, 4], [0, 1, 0, -1]], "int32")
    x, *weights, above = [None if v is None else BACKENDS[name].put(v, v.dtype.name) for v in (whole, *given[1:], dy)]
    with world(name):
        _, pullback = feed_forward_vjp(x, *weights, activation="silu")
        gradients = pullback(above)
    expected = oracle.vjp(whole, *given[1:], dy, activation="silu")
    agrees(gradients, (x, *weights), expected, ("float32",) * 7)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("activation", NAMES)
def test_the_ends_are_finite_0_or_1_and_quiet(activation, dtype):
    """Where exp or a power of h overflows, the slope is what it tends to: no warning on the way, no NaN."""
    ends = [-1e4, -710.0, -104.0, -89.0, -41.0, 41.0, 89.0, 104.0, 257.0, 710.0, 1e4]
    limits = [oracle.DERIVATIVES[activation](h) for h in ends]
    for name in ("numpy", "numpy:generic", "torch", "jax", "mlx", "array-api-strict"):
        row = BACKENDS[name]
        if row.missing() or dtype not in row.dtypes:
            continue
        x, one, dy = put(name, [np.asarray(ends)[:, None], np.ones((1, 1)), np.ones((len(ends), 1))], dtype)
        with warnings.catch_warnings(), np.errstate(over="raise", invalid="raise", divide="raise"), world(name):
            warnings.simplefilter("error")
            _, pullback = feed_forward_vjp(x, one, None, one, None, activation=activation)
            dx = row.take(pullback(dy)[0])[:, 0]
        assert np.all(np.isfinite(dx)), name
        assert dx == pytest.approx(limits, rel=2e-3, abs=6e-8), name


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_nan_touches_its_own_position_alone(name, require):
    require(name)
    for activation in (
        ("relu", "silu") if name in ("dask", "jax") else ("relu", "silu", "gelu", "gelu_tanh", "hard_swish")
    ):
        for bad in (np.nan, np.inf):
            *given, dy = case(15, shape=(4,))
            given[0] = given[0].copy()
            given[0][1, 2] = bad
            arguments = put(name, (*given, dy))
            with world(name):
                y, pullback = feed_forward_vjp(*arguments[:-1], activation=activation)
                dx, gradient = pullback(arguments[-1])
            others, take = [0, 2, 3], BACKENDS[name].take
            value, bound = oracle.feed_forward(*given, activation=activation)
            parts, bounds = oracle.vjp(*given, dy, activation=activation)
            assert np.all(np.abs(take(y)[others] - value[others]) <= bound[others])
            assert np.all(np.abs(take(dx)[others] - parts[0][others]) <= bounds[0][others])
            agrees((dx, gradient), arguments[:-1], (parts, bounds))
