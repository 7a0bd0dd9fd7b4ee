"""Paddle: gradients by its own tape, programs, and what its exp is on a CPU."""

import numpy as np
import pytest

from portable_ffn import ACTIVATIONS, feed_forward, feed_forward_vjp, init_weights, layer_norm, rms_norm

W = init_weights(4, 8, gated=True)
X = np.random.default_rng(0).standard_normal((2, 3, 4))


@pytest.fixture
def paddle(require):
    require("paddle")
    return pytest.importorskip("paddle")


def there(paddle):
    return W.to(like=paddle.zeros([1], "float64"))


def test_its_own_gradient_is_ours(paddle):
    arrays = [paddle.to_tensor(X), *there(paddle)]
    for array in arrays:
        array.stop_gradient = False
    y = feed_forward(*arrays, activation="gelu")
    (y * y).sum().backward()
    want_y, pullback = feed_forward_vjp(X, *W, activation="gelu")
    dx, dw = pullback(2 * want_y)
    for array, want in zip(arrays, [dx, *dw], strict=True):
        np.testing.assert_allclose(array.grad.numpy(), want, rtol=1e-10, atol=1e-11)
    got_y, pullback = feed_forward_vjp(paddle.to_tensor(X), *there(paddle), activation="gelu")
    for got, want in zip(pullback(2 * got_y)[1], dw, strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_its_tape_knows_every_derivative(paddle, activation):
    h = paddle.to_tensor(np.array([-50.0, -10.0, -6.0, -3.0, -1.0, -1e-4, 0.0, 1e-4, 1.0, 3.0, 6.0, 10.0, 50.0]))
    h.stop_gradient = False
    ACTIVATIONS[activation](h).sum().backward()
    want = ACTIVATIONS[activation].derivative(h.detach().numpy())
    np.testing.assert_allclose(h.grad.numpy(), want, rtol=1e-9, atol=1e-12)


def test_exp_reaches_zero(paddle):
    import portable_ffn._arrays.paddle as xp

    for dtype in ("float32", "float64"):
        x = paddle.to_tensor([-np.inf, -1000.0, -50.0, 0.0, np.inf, np.nan], dtype=dtype)
        np.testing.assert_allclose(xp.exp(x).numpy(), np.exp(x.numpy()), rtol=1e-6)


def test_norms(paddle):
    x, gamma = paddle.to_tensor(X), W.b2 + 1
    np.testing.assert_allclose(layer_norm(x, paddle.to_tensor(gamma)).numpy(), layer_norm(X, gamma), rtol=1e-11)
    np.testing.assert_allclose(rms_norm(x, None).numpy(), rms_norm(X, None), rtol=1e-11)


def test_wrong_shapes_are_told_in_numbers(paddle):
    weights = there(paddle)
    with pytest.raises(ValueError, match=r"b1 must have shape \(d_ff,\) = \(8,\)"):
        feed_forward(paddle.to_tensor(X), weights.W1, weights.b2, weights.W2, weights.b2)
