"""`feed_forward_vjp` on every library against the oracle's gradient, PyTorch's autograd and jax.vjp."""

import contextlib
import copy
import functools
import pickle
import threading
import tracemalloc
import warnings

import numpy as np
import pytest

from portable_ffn import ACTIVATIONS, ClippedGate, Weights, feed_forward, feed_forward_vjp, oracle
from portable_ffn._activations.gates_more import SoftcapGate, TopKGate
from portable_ffn._activations.learned import XIELU, PReLU, TanhGELU
from portable_ffn._arrays.dtype import dtype_name
from portable_ffn._native.numpy import gradient as _gradient_numpy
from portable_ffn._native.table import without_native
from portable_ffn.testing import BACKENDS, assert_agrees
from tests.oracle.cases import network

NAMES = sorted(ACTIVATIONS)
PARTS = ("x", "W1", "b1", "W2", "b2", "V", "c")
LIBRARIES = ("numpy", "numpy:generic", "array-api-strict", "dask", "mlx", "torch", "jax")
GPT_OSS = ClippedGate(7.0, alpha=1.702, offset=1.0)


@contextlib.contextmanager
def world(name):
    """The settings of a backend, its native rows switched off for a generic one."""
    with BACKENDS[name].inside(), without_native() if name.endswith(":generic") else contextlib.nullcontext():
        yield


@functools.cache
def case(seed=0, *, shape=(2, 3), gated=False, bias=True, d_ff=7, dtype="float64", scale=1.5):
    """Values of the arguments and of dy, as `dtype` holds them, with those leading axes."""
    given = network(
        seed, 5, d_ff, tokens=int(np.prod(shape)), gated=gated, bias=bias, scale=scale, d_out=4, dtype=dtype
    )
    dy = np.random.default_rng(seed + 1).normal(size=(*shape, 4)).astype(given[0].dtype)
    return given[0].reshape(*shape, 5), *given[1:], dy


def put(name, values, dtype="float64"):
    return [None if v is None else BACKENDS[name].put(np.asarray(v, "float64"), dtype) for v in values]


def agrees(gradients, arguments, expected, dtypes=None):
    """Every gradient is of the library, device, shape and dtype of its argument, and within the bound."""
    dx, weights = gradients
    assert isinstance(weights, Weights)
    worst = 0.0
    for k, (part, got, argument, value, bound) in enumerate(
        zip(PARTS, (dx, *weights), arguments, *expected, strict=True)
    ):
        if argument is None:
            assert got is None, part
            continue
        try:
            worst = max(worst, assert_agrees(got, argument, value, bound, dtype=dtypes and dtypes[k]))
        except AssertionError as error:
            raise AssertionError(f"d{part}: {error}") from None
    return worst


def check(name, values, activation, dtype="float64"):
    """y and all gradients of a case on a backend; returns them."""
    *given, dy = values
    arguments = put(name, values, dtype)
    with world(name):
        y, pullback = feed_forward_vjp(*arguments[:-1], activation=activation)
        gradients = pullback(arguments[-1])
    assert_agrees(y, arguments[0], *oracle.feed_forward(*given, activation=activation, dtype=dtype))
    agrees(gradients, arguments[:-1], oracle.vjp(*given, dy, activation=activation, dtype=dtype))
    return y, gradients


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


def test_the_pullback_may_be_called_again():
    for values in (case(6, gated=True), case(6, gated=False)):
        *given, dy = values
        _, pullback = feed_forward_vjp(*given, activation="silu")
        once, other, again = pullback(dy), pullback(2 * dy), pullback(dy)
        for a, b, c in zip((once[0], *once[1]), (other[0], *other[1]), (again[0], *again[1]), strict=True):
            assert a is c is None or (np.array_equal(a, c) and np.allclose(2 * a, b, rtol=1e-12))


def test_the_pullback_is_pickled_and_copied():
    *given, dy = case(6, gated=True)
    for activation in ("gelu", GPT_OSS, PReLU(0.1)):
        _, pullback = feed_forward_vjp(*given, activation=activation)
        expected = pullback(dy)
        for twin in (pickle.loads(pickle.dumps(pullback)), copy.deepcopy(pullback)):
            assert all(np.array_equal(a, b) for a, b in zip(expected[1], twin(dy)[1], strict=True))


def test_threads_share_a_pullback():
    *given, dy = case(6, shape=(40, 30), gated=True)
    _, pullback = feed_forward_vjp(*given, activation="gelu")
    found = []
    threads = [threading.Thread(target=lambda: found.append(pullback(dy)[1].W1)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(np.array_equal(found[0], other) for other in found)


def test_arguments_are_not_written_to():
    for gated in (False, True):
        arguments = [None if v is None else v.copy() for v in case(8, gated=gated)]
        for array in arguments:
            if array is not None:
                array.flags.writeable = False
        *given, dy = arguments
        for held in (_gradient_numpy.HELD, 0):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(_gradient_numpy, "HELD", held)
                y, pullback = feed_forward_vjp(*given, activation="silu")
                dx, _ = pullback(dy)
        assert not np.shares_memory(dx, given[0])
        assert not np.shares_memory(y, dy)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu", "quick_gelu", "tanh"])
def test_numpy_in_several_blocks(activation, gated, monkeypatch):
    """The same within the bound in blocks of rows, tiles of rows and slices of a weight's gradient."""
    monkeypatch.setattr(_gradient_numpy, "HELD", 0)
    monkeypatch.setattr(_gradient_numpy, "FEWEST", 7)
    monkeypatch.setattr(_gradient_numpy, "TILE", 200)
    monkeypatch.setattr(_gradient_numpy, "PRODUCT", 100)
    for dtype in ("float64", "float32", "float16"):
        check("numpy", case(9, shape=(4, 9), gated=gated, dtype=dtype), activation, dtype)


def test_numpy_takes_no_memory_that_grows_with_the_tokens():
    rng = np.random.default_rng(0)
    x, dy = rng.normal(size=(2, 10_000, 8)), rng.normal(size=(10_000, 2, 8)).transpose(1, 0, 2)
    W1, V, W2 = (rng.normal(size=s) for s in ((8, 512), (8, 512), (512, 8)))
    whole = 20_000 * 512 * 8
    tracemalloc.start()
    y, pullback = feed_forward_vjp(x, W1, None, W2, None, V, activation="relu")
    dx, _ = pullback(dy)
    peak = tracemalloc.get_traced_memory()[1] - y.nbytes - dx.nbytes - dy.nbytes
    tracemalloc.stop()
    assert peak < 64 << 20 < whole


@pytest.mark.parametrize("chunks", [(2, 3, 5), (3, 2, 2), (4, 6, 5)])
def test_dask_keeps_its_chunks(chunks, require):
    """Lazy, without merging or rechunking of the leading axes, and shared between y and the gradients."""
    require("dask")
    import dask
    import dask.array as da

    *given, dy = case(10, shape=(4, 6), gated=True)
    x = da.from_array(given[0], chunks=chunks)
    weights = [da.from_array(v, chunks=-1) for v in given[1:]]
    above = da.from_array(dy, chunks=(*chunks[:2], 4))
    with BACKENDS["dask"].inside():
        y, pullback = feed_forward_vjp(x, *weights, activation="silu")
        gradients = pullback(above)
    assert gradients[0].chunks[:2] == x.chunks[:2] == y.chunks[:2]
    keys = " ".join(str(key) for d in gradients[1] for key in d.__dask_graph__())
    assert "reshape" not in keys
    assert "rechunk" not in keys or chunks[2] != 5
    agrees(gradients, (x, *weights), oracle.vjp(*given, dy, activation="silu"))
    alone = [len(part.__dask_graph__()) for part in (y, gradients[1].W2)]
    assert len(dask.base.collections_to_expr([y, gradients[1].W2]).__dask_graph__()) < sum(alone)


def test_dask_with_lengths_that_are_not_known_yet(require):
    require("dask")
    import dask.array as da

    *given, dy = case(12, shape=(12,))
    x = da.from_array(given[0], chunks=(4, 5))
    kept = da.from_array(given[0][:, 0] > 0, chunks=4)
    weights = [None if v is None else da.from_array(v) for v in given[1:]]
    with BACKENDS["dask"].inside():
        _, pullback = feed_forward_vjp(x[kept], *weights, activation="tanh")
        gradients = pullback(da.from_array(dy, chunks=(4, 4))[kept])
    rows = given[0][:, 0] > 0
    expected = oracle.vjp(given[0][rows], *given[1:], dy[rows], activation="tanh")
    assert np.isnan(gradients[0].shape[0])
    for got, value, bound in zip((gradients[0], *gradients[1]), *expected, strict=True):
        assert got is value is None or np.all(np.abs(got.compute() - value) <= bound)


def test_under_jit(require):
    require("jax")
    import jax

    *given, dy = case(13, gated=True)

    @jax.jit
    def both(arguments, dy):
        y, pullback = feed_forward_vjp(*arguments, activation="gelu")
        return y, pullback(dy)

    arguments = [jax.numpy.asarray(v) for v in given]
    _, gradients = both(arguments, jax.numpy.asarray(dy))
    agrees(gradients, arguments, oracle.vjp(*given, dy, activation="gelu"))


def test_of_pytorch_it_is_differentiable_again(require):
    """y and the gradients are part of PyTorch's graph, and requires_grad stays as it was."""
    require("torch")
    import torch

    *given, dy = case(14)
    tensors = [None if v is None else torch.tensor(v, requires_grad=True) for v in given]
    y, pullback = feed_forward_vjp(*tensors, activation="tanh")
    dx, _ = pullback(torch.tensor(dy))
    assert y.requires_grad
    twice = torch.autograd.grad(dx.sum(), tensors[0])[0]
    again = feed_forward(*tensors, activation="tanh")
    once = torch.autograd.grad(again, tensors[0], torch.tensor(dy), create_graph=True)
    assert torch.allclose(twice, torch.autograd.grad(once[0].sum(), tensors[0])[0])
    assert all(t is None or t.requires_grad for t in tensors)


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


def test_activations_of_the_user():
    """With a derivative, on any library; the learned ones and every gate bring theirs."""
    *given, dy = case(16, gated=True)

    def cube(h):
        return h * h * h

    cube.derivative = lambda h: 3 * h * h
    for activation in (cube, PReLU(0.2), PReLU([0.1] * 7), XIELU(0.3, 0.4), TanhGELU()):
        for name in ("numpy", "torch", "mlx", "dask"):
            if BACKENDS[name].missing() is None and (name != "dask" or activation is cube):
                check(name, (*given, dy), activation)
                check(name, case(16), activation)
    for gate in (SoftcapGate(5.0, 4.0), TopKGate(0.5)):
        for name in ("numpy", "array-api-strict", "torch"):
            if BACKENDS[name].missing() is None:
                check(name, (*given, dy), gate)


def test_an_activation_without_a_derivative_is_refused_at_once():
    *given, _ = case(16, gated=True)
    with pytest.raises(TypeError, match="attribute `derivative`, a function of the same array, got function without"):
        feed_forward_vjp(*given, activation=lambda h: h * h)

    class Gate:
        def gate(self, g, u):
            return g + u

    with pytest.raises(TypeError, match=r"method `gate_vjp\(g, u, d\)` .*, got the gate .*Gate without one"):
        feed_forward_vjp(*given, activation=Gate())
    with pytest.raises(ValueError, match="activation must be one of"):
        feed_forward_vjp(*given, activation="rleu")


def test_a_derivative_must_keep_the_shape():
    def f(h):
        return h

    f.derivative = lambda h: h[..., :1]
    *given, dy = case(16)
    _, pullback = feed_forward_vjp(*given, activation=f)
    with pytest.raises(ValueError, match="activation must keep the shape"):
        pullback(dy)


def test_what_dy_must_be(require):
    require("torch")
    import torch

    *given, dy = case(17)
    _, pullback = feed_forward_vjp(*given)
    with pytest.raises(ValueError, match=r"dy must have the shape of y, \(2, 3, 4\), got \(3, 4\); no gr"):
        pullback(dy[0])
    with pytest.raises(TypeError, match="x and dy must belong to one library, got x of numpy and dy of torch; convert"):
        pullback(torch.tensor(dy))
    with pytest.raises(TypeError, match=r"dy must be an array .*, got None"):
        pullback(None)
    with pytest.raises(TypeError, match=r"dy must be real floating .*, got dtype complex128; cast it first"):
        pullback(dy.astype("complex128"))
    meta = [None if v is None else torch.tensor(v) for v in given]
    _, pullback = feed_forward_vjp(*meta)
    with pytest.raises(ValueError, match="x and dy must be on one device, got x on cpu and dy on meta; convert dy"):
        pullback(torch.tensor(dy, device="meta"))


def test_the_arguments_are_checked_as_the_forward_checks_them():
    *given, _ = case(17)
    x, W1, b1, W2, b2, *_ = given
    with pytest.raises(ValueError, match="W2 must have shape"):
        feed_forward_vjp(x, W1, b1, W2.T, b2)
    with pytest.raises(TypeError, match="W2 must be an array, got None"):
        feed_forward_vjp(x, W1, b1, None, b2)
    with pytest.raises(ValueError, match="c must come with V"):
        feed_forward_vjp(x, W1, b1, W2, b2, None, b1)
