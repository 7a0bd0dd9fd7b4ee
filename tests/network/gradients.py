"""Cases of the gradient on each library, and the oracle's answers to them."""

import contextlib
import functools

import numpy as np

from portable_ffn import ClippedGate, Weights, feed_forward_vjp, oracle
from portable_ffn._native.table import without_native
from portable_ffn.testing import BACKENDS, assert_agrees
from tests.oracle.cases import network

PARTS = ("x", "W1", "b1", "W2", "b2", "V", "c")
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
