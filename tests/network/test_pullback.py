"""The pullback: called again, pickled, shared by threads, in blocks and chunks, under transforms."""

import copy
import pickle
import threading
import tracemalloc

import numpy as np
import pytest

from portable_ffn import feed_forward, feed_forward_vjp, oracle
from portable_ffn._activations.learned import PReLU
from portable_ffn._native import blocks as _blocks
from portable_ffn._native.numpy import gradient as _gradient_numpy
from portable_ffn.testing import BACKENDS
from tests.network.gradients import GPT_OSS, agrees, case, check


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
    monkeypatch.setattr(_blocks, "FEWEST", 7)
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
