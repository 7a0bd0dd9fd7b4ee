"""tinygrad: the functions that are made of series here, NaN, and gradients by its own means."""

import numpy as np
import pytest

from portable_ffn import ACTIVATIONS, feed_forward, feed_forward_vjp, init_weights

W = init_weights(4, 8, gated=True)
X = np.random.default_rng(0).standard_normal((3, 4))


@pytest.fixture
def tinygrad(require):
    require("tinygrad")
    return pytest.importorskip("tinygrad")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["exp", "expm1", "tanh", "log1p"])
def test_functions_made_of_series_have_their_digits(tinygrad, name, dtype):
    """Two units in the last place, near 0 and far from it."""
    import portable_ffn._arrays.tinygrad as xp

    near = np.logspace(-7, 1.9, 60)
    x = (np.concatenate([-near, near]) if name != "log1p" else near[near < 1]).astype(dtype)
    got = getattr(xp, name)(tinygrad.Tensor(x)).numpy().astype("longdouble")
    want = getattr(np, name)(x.astype("longdouble"))
    assert np.max(np.abs(got - want) / np.abs(want)) < 2.1 * np.finfo(dtype).eps


def test_nan_is_passed_on(tinygrad):
    h = tinygrad.Tensor([np.nan, 1.0])
    for name in ("relu", "relu6", "hard_swish", "gelu"):
        assert np.isnan(ACTIVATIONS[name](h).numpy()).tolist() == [True, False], name


def test_its_own_gradient_is_ours(tinygrad):
    arrays = [tinygrad.Tensor(X), *W.to(like=tinygrad.Tensor(X))]
    y = feed_forward(*arrays, activation="gelu")
    found = (y * y).sum().gradient(*arrays)
    want_y, pullback = feed_forward_vjp(X, *W, activation="gelu")
    dx, dw = pullback(2 * want_y)
    for got, want in zip(found, [dx, *dw], strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-10, atol=1e-11)
    got_y, pullback = feed_forward_vjp(*arrays, activation="gelu")
    for got, want in zip(pullback(2 * got_y)[1], dw, strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-10, atol=1e-11)
