"""What holds whatever is called: values that are no numbers, warnings, copies, threads."""

import copy
import pickle
import threading
import warnings

import numpy as np
import pytest

from portable_ffn import (
    ACTIVATIONS,
    ClippedGate,
    feed_forward,
    hidden,
    init_weights,
    oracle,
)
from portable_ffn.testing import assert_agrees
from tests.contract import G, W, X, every_activation, put


def test_strides_of_every_kind():
    x = np.asfortranarray(X)
    y, bound = oracle.feed_forward(X, *W)
    for view in (
        x,
        X[::-1][::-1],
        np.repeat(X, 2, axis=0)[::2],
        np.lib.stride_tricks.as_strided(X, X.shape, X.strides),
    ):
        for W1 in (np.asfortranarray(W.W1), W.W1.T.copy().T, W.W1[:, ::-1].copy()[:, ::-1], W.W1[::-1].copy()[::-1]):
            before = view.copy(), W1.copy()
            assert_agrees(feed_forward(view, W1, *W[1:]), X, y, bound)
            assert np.array_equal(before[0], view)
            assert np.array_equal(before[1], W1)


def test_read_only_memory_is_read_only():
    arrays = [None if a is None else a.copy() for a in (X, *G)]
    for array in arrays:
        array.flags.writeable = False
    y = feed_forward(*arrays, activation="gelu")
    assert_agrees(y, X, *oracle.feed_forward(X, *G, activation="gelu"))


@every_activation
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # Dask computes when it is asked, outside our call
def test_one_position_touches_no_other(backend, value, activation):
    x = np.random.default_rng(0).standard_normal((5, 4))
    x[2, 1] = value
    moved = put(backend, (x, *W))
    y = backend.take(feed_forward(*moved, activation=activation))
    with np.errstate(all="ignore"):
        expected, bound = oracle.feed_forward(x, *W, activation=activation)
    assert np.isfinite(np.delete(y, 2, axis=0)).all()
    if np.isnan(value):
        assert np.isnan(y[2]).all()
    assert_agrees(backend.put(y), moved[0], expected, bound)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_no_floating_point_warning_leaves(dtype, activation):
    ends = np.asarray([-np.inf, -1e4, -710, -104, -89, 0, 89, 1e4, np.inf, np.nan], dtype=dtype)[:, None]
    one = np.ones((1, 1), dtype=dtype)
    with np.errstate(all="raise"):
        y = feed_forward(ends, one, None, one, None, activation=activation)
        gated = feed_forward(ends, one, None, one, None, one, activation=activation)
    beyond = activation == "relu2" and dtype == "float16"  # 1e4 squared
    assert np.isfinite(y[1 : 7 if beyond else 8]).all()
    assert gated.shape == (10, 1)


def test_overflow_of_half_precision_is_infinite_and_quiet():
    x, W1, W2 = np.ones((1, 4)), 256 * np.eye(4), np.full((4, 4), 256.0)
    with np.errstate(all="raise"):
        assert np.isposinf(
            feed_forward(*(a.astype("float16") for a in (x, W1)), None, W2.astype("float16"), None)
        ).all()
        wide = feed_forward(*(a.astype("float16") for a in (x, W1)), None, W2.astype("float32"), None)
        assert np.all(wide == 262144)
        gate = np.full((1, 1), 300, dtype="float16")
        one = np.ones((1, 1), dtype="float16")
        assert np.isposinf(hidden(one, gate, None, gate, activation="identity"))
        y = feed_forward(one, gate, None, np.full((1, 1), 0.01, "float16"), None, gate, activation="identity")
    expected, bound = oracle.feed_forward(
        one, gate, None, np.full((1, 1), 0.01, "float16"), None, gate, activation="identity"
    )
    assert_agrees(y, one, expected, bound)


def test_copies_and_pickles():
    for value in (W, G, ClippedGate(7.0), *ACTIVATIONS.values()):
        for other in (copy.deepcopy(value), copy.copy(value), pickle.loads(pickle.dumps(value))):
            assert type(other) is type(value)
    assert np.array_equal(pickle.loads(pickle.dumps(W)).W1, W.W1)


def test_threads_do_not_meet():
    jobs = [
        (np.random.default_rng(i).standard_normal((17 + i, 4)), activation)
        for i, activation in enumerate(sorted(ACTIVATIONS))
    ]
    alone = [feed_forward(x, *W, activation=activation) for x, activation in jobs]
    wrong = []

    def work():
        for _ in range(5):
            for (x, activation), y in zip(jobs, alone, strict=True):
                if not np.array_equal(feed_forward(x, *W, activation=activation), y):
                    wrong.append(activation)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_rows_alone_and_in_a_batch():
    rng = np.random.default_rng(0)
    x, weights = rng.standard_normal((64, 1000)), init_weights(1000, 64)
    for dtype in ("float32", "float64"):
        low, w = x.astype(dtype), weights.to(dtype=dtype)
        y, bound = oracle.feed_forward(low, *w)
        assert_agrees(feed_forward(low, *w), low, y, bound)
        assert_agrees(feed_forward(low[5], *w), low, y[5], bound[5])


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        feed_forward(X, *G, activation="gelu_tanh")
