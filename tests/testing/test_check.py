"""What a check refuses and what it lets pass: faults of value, dtype, shape and library."""

import ml_dtypes
import numpy as np
import pytest

from portable_ffn import ClippedGate, feed_forward, init_weights, oracle
from portable_ffn.testing import assert_agrees, check
from portable_ffn.testing._backends.arrays import held
from portable_ffn.testing._inputs.cases import CASES
from tests.testing.networks import in_place, network, numpy_only, one_axis_lost, swiglu

SIZES = (8, 32)


def answer(dtype, activation="gelu", gated=False):
    """Inputs of the smallest size, and the oracle's answer."""
    weights = [None if a is None else held(a, dtype) for a in init_weights(*SIZES, gated=gated)]
    x = held(np.random.default_rng(1).standard_normal((16, SIZES[0])), dtype)
    return x, weights, *oracle.feed_forward(x, *weights, activation=activation, dtype=dtype)


def tanh_gelu(x, W1, b1, W2, b2):
    h = x @ W1 + b1
    return 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3))) @ W2 + b2


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_another_gelu_is_refused(dtype):
    x, weights, y, bound = answer(dtype)
    wrong = held(tanh_gelu(x, *weights[:4]), dtype)
    with pytest.raises(AssertionError, match="times the bound"):
        assert_agrees(wrong.astype(dtype), x.astype(dtype), y, bound)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("which", [1, 3])
def test_a_bias_that_is_off_by_a_thousandth_is_refused(dtype, which):
    x, weights, y, bound = answer(dtype)
    weights[which] = weights[which] + 1e-3
    wrong = oracle.feed_forward(x, *weights, activation="gelu")[0]
    with pytest.raises(AssertionError, match="times the bound"):
        assert_agrees(wrong.astype(dtype), x.astype(dtype), y, bound)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("fault", ["swapped branches", "permuted rows", "a NaN", "zeros"])
def test_gross_faults_are_refused_in_every_dtype(dtype, fault):
    x, weights, y, bound = answer(dtype, "silu", gated=True)
    W1, b1, W2, b2, V, c = weights
    if fault == "swapped branches":
        wrong = oracle.feed_forward(x, V, c, W2, b2, W1, b1, activation="silu")[0]
    elif fault == "permuted rows":
        wrong = y[::-1]
    elif fault == "a NaN":
        wrong = np.where(np.arange(y.size).reshape(y.shape) == 5, np.nan, y)
    else:
        wrong = 0.0 * y
    of = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    with pytest.raises(AssertionError, match="times the bound"):
        assert_agrees(wrong.astype(of), x.astype(of), y, bound)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_zeros_for_outputs_of_a_millionth_are_refused(dtype):
    x, weights, _, _ = answer(dtype)
    weights[2], weights[3] = held(1e-6 * weights[2], dtype), held(1e-6 * weights[3], dtype)
    y, bound = oracle.feed_forward(x, *weights, activation="gelu", dtype=dtype)
    with pytest.raises(AssertionError, match="times the bound"):
        assert_agrees(np.zeros_like(y, dtype=dtype), x.astype(dtype), y, bound)


def test_networks_of_plain_numpy_pass():
    assert numpy_only(network).passed
    assert numpy_only(swiglu, activation="silu", gated=True).passed
    assert numpy_only(lambda x, W1, W2: np.maximum(x @ W1, 0) @ W2, bias=False).passed


def test_every_dtype_of_our_own_network_passes():
    report = check(feed_forward, backends="numpy")
    assert report.passed, report
    assert {row.dtype for row in report.rows} == {"float64", "float32", "float16", "bfloat16"}
    assert {row.case for row in report.rows} == {case.name for case in CASES}


def test_a_clipped_gate():
    gate = ClippedGate(7.0, 1.702, 1.0)
    report = numpy_only(lambda *arrays: feed_forward(*arrays, activation=gate), activation=gate, gated=True)
    assert report.passed, report
    assert report.rows[0].activation == repr(gate)


def test_a_callable_is_the_activation_of_numpy():
    def cube(h):
        return h * h * h

    report = numpy_only(lambda x, W1, b1, W2, b2: cube(x @ W1 + b1) @ W2 + b2, activation=cube)
    assert report.passed, report
    assert report.rows[0].activation == "cube"


def relu_at_the_end(x, W1, b1, W2, b2):
    return np.maximum((x @ W1 + b1) @ W2 + b2, 0)


def where_for_relu(x, W1, b1, W2, b2):
    """Takes NaN for zero."""
    h = x @ W1 + b1
    return np.where(h > 0, h, 0) @ W2 + b2


def numpy_constants(x, W1, b1, W2, b2):
    """A float64 scalar where a Python float was meant."""
    return np.maximum(x @ W1 + b1, 0) @ W2 * np.float64(1.0) + b2


def mixed_positions(x, W1, b1, W2, b2):
    return network(x - 0.1 * x.mean(axis=tuple(range(x.ndim - 1)), keepdims=True), W1, b1, W2, b2)


@pytest.mark.filterwarnings("ignore:Mean of empty slice:RuntimeWarning")
@pytest.mark.parametrize(
    ("fn", "dtype", "case", "match"),
    [
        (relu_at_the_end, "float64", "ordinary", "times the bound"),
        (where_for_relu, "float64", "a NaN", r"must be nan .* got"),
        (numpy_constants, "float32", "curve", "must have dtype float32, got float64"),
        (in_place, "float64", "ordinary", "must not be written to, but b1 changed"),
        (one_axis_lost, "float64", "three leading axes", r"must have shape \(2, 1, 3, 8\), got \(6, 8\)"),
        (one_axis_lost, "float64", "one axis", r"must have shape \(8,\), got \(1, 8\)"),
        (mixed_positions, "float64", "ordinary", "times the bound"),
        (lambda x, W1, b1, W2, b2: network(x, W1.T.T, b1, W2, b2)[..., ::-1], "float64", "square", "times the bound"),
    ],
)
def test_faults_of_other_people(fn, dtype, case, match):
    report = check(fn, backends="numpy", dtypes=dtype, cases=case)
    assert not report.passed
    assert [row.status for row in report.rows] == ["fail"]
    with pytest.raises(AssertionError, match=match):
        report.raise_if_failed()


def test_a_network_that_computes_float64_in_float32_fails():
    import torch

    def narrow(x, W1, b1, W2, b2):
        return feed_forward(*(a.to(torch.float32) for a in (x, W1, b1, W2, b2))).to(x.dtype)

    report = check(narrow, backends="torch", dtypes=["float64", "float32"], cases="ordinary")
    assert {row.dtype: row.status for row in report.rows} == {"float64": "fail", "float32": "pass"}


def test_a_network_that_leaves_its_library_fails():
    def through_numpy(*arrays):
        return feed_forward(*(a.numpy() for a in arrays))

    report = check(through_numpy, backends="torch", dtypes="float32", cases="ordinary")
    with pytest.raises(AssertionError, match="must be an array of torch as x is, got numpy"):
        report.raise_if_failed()
