"""The two normalisations and the sublayer: their formulas, eps, offset, dtypes and errors."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

from portable_ffn import (
    Weights,
    feed_forward,
    init_weights,
    layer_norm,
    rms_norm,
    sublayer,
)
from portable_ffn._arrays.dtype import dtype_name
from portable_ffn.testing import BACKENDS

LIBRARIES = [row for row in BACKENDS.values() if ":" not in row.name and row.missing() is None]
every_backend = pytest.mark.parametrize("backend", LIBRARIES, ids=lambda row: row.name)
RNG = np.random.default_rng(0)
X, GAMMA, BETA = RNG.standard_normal((2, 3, 6)), RNG.standard_normal(6), RNG.standard_normal(6)


def by_hand_layer(x, gamma, beta, eps):
    return gamma * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) + beta


def by_hand_rms(x, gamma, eps, offset=0.0):
    return (gamma + offset) * x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


@every_backend
@pytest.mark.parametrize("eps", [1e-12, 1e-6, 1e-5, 1e-3])
def test_formulas_and_eps(backend, eps):
    small = 1e-3 * X  # where eps decides
    x, gamma, beta = (backend.put(a) for a in (small, GAMMA, BETA))
    got = backend.take(layer_norm(x, gamma, beta, eps=eps)), backend.take(rms_norm(x, gamma, eps=eps))
    assert np.allclose(got[0], by_hand_layer(small, GAMMA, BETA, eps), rtol=1e-12, atol=1e-14)
    assert np.allclose(got[1], by_hand_rms(small, GAMMA, eps), rtol=1e-12, atol=1e-14)
    assert not np.allclose(got[1], by_hand_rms(small, GAMMA, 3 * eps), rtol=1e-7)


@every_backend
def test_what_may_be_none(backend):
    x, gamma, beta = (backend.put(a) for a in (X, GAMMA, BETA))
    assert np.allclose(backend.take(layer_norm(x, None)), by_hand_layer(X, 1, 0, 1e-5), rtol=1e-12)
    assert np.allclose(backend.take(layer_norm(x, gamma)), by_hand_layer(X, GAMMA, 0, 1e-5), rtol=1e-12)
    assert np.allclose(backend.take(layer_norm(x, None, beta)), by_hand_layer(X, 1, BETA, 1e-5), rtol=1e-12)
    assert np.allclose(backend.take(rms_norm(x, None)), by_hand_rms(X, 1, 1e-6), rtol=1e-12)


@every_backend
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_low_precision_is_computed_in_float32(backend, dtype):
    if dtype not in backend.dtypes:
        pytest.skip(f"{backend.name} has no {dtype}")
    arrays = [backend.put(a, dtype) for a in (100 * X, GAMMA, BETA)]
    held = [backend.take(a) for a in arrays]
    y = layer_norm(*arrays)
    assert dtype_name(y.dtype) == dtype
    unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}[dtype]
    exact = by_hand_layer(*held, 1e-5)
    assert np.all(np.abs(backend.take(y) - exact) <= 1.01 * unit * np.abs(exact) + 2e-5 * (dtype != "float32") + 2e-6)


def test_the_offset_is_added_in_float32():
    pytest.importorskip("ml_dtypes", reason="NumPy's bfloat16 comes from it")
    w = Weights(np.asarray([15.8125, 1.0]), None, None, None).to(dtype="bfloat16").W1
    x = Weights(np.asarray([3.0, 3.0]), None, None, None).to(dtype="bfloat16").W1
    y = rms_norm(x, w, eps=0.0, offset=1.0).astype("float64")
    assert y[0] == 16.75  # 16.8125 rounded once; had the sum been rounded first it would be the same
    y = rms_norm(x.astype("float32"), w, eps=0.0, offset=1.0)
    assert y[0] == np.float32(16.8125)  # and not 16.75, the sum in bfloat16


@pytest.mark.parametrize("number", [np.float64(1e-5), np.asarray(1e-5), np.float32(1e-5)])
def test_a_number_of_numpy_changes_no_dtype(number):
    x = X.astype("float32")
    assert layer_norm(x, None, eps=number).dtype == np.float32
    assert rms_norm(x, None, eps=number, offset=number).dtype == np.float32


@pytest.mark.parametrize("function", [layer_norm, rms_norm])
def test_errors(function):
    with pytest.raises(ValueError, match=r"gamma must have shape \(d_model,\) = \(6,\), got \(5,\)"):
        function(X, GAMMA[:5])
    with pytest.raises(ValueError, match=r"x must have shape .* got a 0-d array"):
        function(np.float64(1.0), None)
    with pytest.raises(ValueError, match="eps must be finite and zero or more, got -1"):
        function(X, GAMMA, eps=-1)
    with pytest.raises(TypeError, match="x must be an array"):
        function([1.0], None)
    with pytest.raises(TypeError, match="gamma must be an array"):
        function(X, [1.0] * 6)


@pytest.mark.parametrize("order", ["post", "pre"])
def test_what_goes_round_the_network_is_checked(order):
    weights = init_weights(6, 8)
    with pytest.raises(ValueError, match=r"norm must return the shape of its argument, \(3, 6\), got \(3, 4\)"):
        sublayer(np.ones((3, 6)), weights, lambda z: z[:, :4], order=order)
    with pytest.raises(TypeError, match="what norm returns must be an array"):
        sublayer(np.ones((3, 6)), weights, lambda z: None, order=order)
    with pytest.raises(TypeError, match="weights must be Weights, or a sequence of W1"):
        sublayer(np.ones((3, 6)), weights.W1, lambda z: z, order=order)


@every_backend
@pytest.mark.parametrize("order", ["post", "pre"])
def test_sublayer(backend, order):
    weights = init_weights(6, 12, gated=True)
    arrays = [backend.put(a) for a in (X, *weights)]
    gamma = backend.put(GAMMA)
    y = backend.take(sublayer(arrays[0], arrays[1:], lambda z: rms_norm(z, gamma), activation="silu", order=order))
    if order == "post":
        expected = by_hand_rms(X + feed_forward(X, *weights, activation="silu"), GAMMA, 1e-6)
    else:
        expected = X + feed_forward(by_hand_rms(X, GAMMA, 1e-6), *weights, activation="silu")
    assert np.allclose(y, expected, rtol=1e-12, atol=1e-13)


def test_sublayer_errors():
    w = init_weights(6, 12)
    with pytest.raises(ValueError, match=r'order must be "post" or "pre", got \'sandwich\''):
        sublayer(X, w, lambda z: z, order="sandwich")
    with pytest.raises(TypeError, match="norm must be a callable on one array, got str"):
        sublayer(X, w, "layer_norm")
    with pytest.raises(ValueError, match="W2 must have d_model = 6 columns for a residual connection, got 5"):
        sublayer(X, w._replace(W2=w.W2[:, :5], b2=None), lambda z: z)


def test_sublayer_promotes_by_the_rule():
    w = init_weights(6, 12)
    assert sublayer(X.astype("float32"), w, lambda z: z).dtype == np.float64
    assert sublayer(X.astype("float16"), w.to(dtype="float32"), lambda z: z, order="pre").dtype == np.float32
    assert sublayer(np.ones((2, 6), dtype=int), w, lambda z: z).dtype == np.float64


@pytest.mark.parametrize("norm", [layer_norm, rms_norm])
@pytest.mark.parametrize("shape", [(3, 0), (0,), (0, 0), (0, 4)])
def test_a_norm_of_nothing_is_empty_without_a_word(norm, shape):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = norm(np.zeros(shape, np.float16), np.ones(shape[-1], np.float32))
    assert y.shape == shape
    assert y.dtype == np.float32


def test_devices_that_a_norm_cannot_combine_are_named():
    code = """
import jax, jax.numpy as jnp
from portable_ffn import layer_norm
a, b = jax.devices()
try:
    layer_norm(jax.device_put(jnp.ones((2, 4)), a), jax.device_put(jnp.ones(4), b))
except ValueError as error:
    print(error)
"""
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert "x and gamma must be on one device, got x on" in told.stdout
