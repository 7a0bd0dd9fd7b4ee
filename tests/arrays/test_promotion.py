"""The rule of dtypes on every library: the widest real floating one."""

import numpy as np
import pytest

from portable_ffn import (
    ACTIVATIONS,
    ClippedGate,
    Weights,
    feed_forward,
    init_weights,
    oracle,
)
from portable_ffn._arrays.dtype import dtype_name
from portable_ffn.testing import assert_agrees
from tests.contract import G, W, X, every_activation, every_backend, put

FLOAT32_BY_DEFAULT = ("torch", "mlx", "tensorflow", "paddle", "tinygrad")
FLOATS = ("bfloat16", "float16", "float32", "float64")


def expected_dtype(one, other):
    if {one, other} == {"bfloat16", "float16"}:
        return "float32"
    return max(one, other, key=FLOATS.index)


@every_backend
@pytest.mark.parametrize("one", FLOATS)
@pytest.mark.parametrize("other", FLOATS)
@pytest.mark.parametrize(
    "activation", ["relu", "gelu", ClippedGate(np.float64(7.0), np.float64(1.702), np.float64(1.0))], ids=str
)
def test_the_widest_real_floating_dtype(backend, one, other, activation):
    if one not in backend.dtypes or other not in backend.dtypes or expected_dtype(one, other) not in backend.dtypes:
        pytest.skip(f"{backend.name} has no {one} or {other}")
    weights = W if isinstance(activation, str) else G
    x, *rest = put(backend, (X,), one) + put(backend, weights, other)
    y = feed_forward(x, *rest, activation=activation)
    assert dtype_name(y.dtype) == expected_dtype(one, other)
    rounded = [None if a is None else backend.take(a) for a in (x, *rest)]
    expected = oracle.feed_forward(*rounded, activation=activation, dtype=expected_dtype(one, other))
    assert_agrees(y, y, *expected)


@every_activation
@pytest.mark.parametrize("kind", ["int64", "bool"])
def test_integers_are_their_numbers(backend, kind, activation):
    numbers = np.asarray([[1, 2, 3, 4], [0, 1, 0, 2]]).astype(kind)
    weights = put(backend, W)
    y = feed_forward(backend.put(numbers, kind), *weights, activation=activation)
    assert dtype_name(y.dtype) == "float64"
    expected = oracle.feed_forward(numbers, *W, activation=activation)
    assert_agrees(y, y, *expected)


@every_backend
def test_integers_alone_become_the_default_float(backend):
    x = backend.put([[1, 2, 3, 4]], "int32")
    weights = [None if a is None else backend.put(a > 0, "int32") for a in W]
    y = feed_forward(x, *weights)
    default = "float32" if backend.library in FLOAT32_BY_DEFAULT else "float64"
    assert dtype_name(y.dtype) == default
    expected, bound = oracle.feed_forward([[1, 2, 3, 4]], *(None if a is None else a > 0 for a in W), dtype=default)
    assert_agrees(y, y, expected, bound)


def test_a_constant_of_a_callable_changes_no_dtype():
    x, weights = X.astype("float32"), W.to(dtype="float32")
    assert feed_forward(x, *weights, activation=lambda h: h * np.float64(2.0)).dtype == np.float32


@pytest.mark.parametrize("activation", [*sorted(ACTIVATIONS), ClippedGate(7.0, 1.702, 1.0)], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_numpy_half_precision_is_the_float32_result_rounded_once(activation, dtype):
    weights = W if isinstance(activation, str) else G
    x, low = Weights(X, None, None, None).to(dtype=dtype).W1, weights.to(dtype=dtype)
    y = feed_forward(x, *low, activation=activation)
    wide = feed_forward(x.astype("float32"), *low.to(dtype="float32"), activation=activation)
    assert y.dtype.name == dtype
    assert np.array_equal(y.astype("float64"), wide.astype(y.dtype).astype("float64"))


def test_bytes_in_another_order_are_no_dtype():
    weights = init_weights(4, 8)
    swapped = Weights(*(None if w is None else w.astype(w.dtype.newbyteorder()) for w in weights))
    x = np.ones((3, 4)).astype(">f8")
    y = feed_forward(x, *swapped, activation="gelu")
    assert y.dtype == np.float64
    assert y.dtype.isnative
    assert np.allclose(y, feed_forward(np.ones((3, 4)), *weights, activation="gelu"), rtol=1e-14)
