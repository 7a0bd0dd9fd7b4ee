"""dpnp: arrays on a SYCL device, which are combined on one queue or not at all."""

import numpy as np
import pytest

from portable_ffn import feed_forward, feed_forward_vjp, init_weights, layer_norm

W = init_weights(4, 8)
X = np.random.default_rng(0).standard_normal((3, 4))


@pytest.fixture
def dpnp(require):
    require("dpnp")
    return pytest.importorskip("dpnp")


def test_two_queues_are_told(dpnp):
    queue = pytest.importorskip("dpctl").SyclQueue()
    near, far = dpnp.asarray(X), dpnp.asarray(X, sycl_queue=queue)
    weights = W.to(like=near)
    with pytest.raises(ValueError, match="x and W1 must be on one device"):
        feed_forward(far, *weights)
    y = feed_forward(far, *weights.to(like=far))
    assert y.sycl_queue == queue
    np.testing.assert_allclose(dpnp.asnumpy(y), feed_forward(X, *W), rtol=1e-12)


def test_gradient_and_norm(dpnp):
    x = dpnp.asarray(X)
    y, pullback = feed_forward_vjp(x, *W.to(like=x), activation="gelu")
    want_y, want = feed_forward_vjp(X, *W, activation="gelu")
    np.testing.assert_allclose(dpnp.asnumpy(pullback(y)[1].W1), want(want_y)[1].W1, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(dpnp.asnumpy(layer_norm(x, None, None)), layer_norm(X, None, None), rtol=1e-12)
