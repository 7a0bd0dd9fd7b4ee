"""TensorFlow: variables, graphs of unknown lengths, gradients by its own tape, saved models, and maps."""

import numpy as np
import pytest

from portable_ffn import (
    ACTIVATIONS,
    ClippedGate,
    Weights,
    feed_forward,
    feed_forward_vjp,
    hidden,
    init_weights,
    layer_norm,
    rms_norm,
    sublayer,
)

W = init_weights(4, 8, gated=True)
X = np.random.default_rng(0).standard_normal((2, 3, 4))
GATE = ClippedGate(7.0, 1.702, 1.0)


@pytest.fixture
def tf(require):
    require("tensorflow")
    return pytest.importorskip("tensorflow")


def there(tf, weights=W):
    return weights.to(like=tf.zeros(1, "float64"))


def expected(**how):
    return feed_forward(X, *W, **how)


def test_variables_are_arrays_and_are_trained(tf):
    """The tape's gradients are those of `feed_forward_vjp`, for the weights as variables."""
    variables = Weights(*map(tf.Variable, there(tf)))
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = feed_forward(x, *variables, activation="gelu")
        loss = tf.reduce_sum(y * y)
    found = tape.gradient(loss, [x, *variables])
    y, pullback = feed_forward_vjp(X, *W, activation="gelu")
    dx, dw = pullback(2 * y)
    for got, want in zip(found, [dx, *dw], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_the_tape_knows_every_derivative(tf, activation):
    """At corners the left one, and finite wherever the value is."""
    h = tf.constant(
        [-1e30, -50.0, -10.0, -6.0, -3.0, -1.0, -1e-4, 0.0, 1e-4, 1.0, 3.0, 6.0, 10.0, 50.0, 1e4], "float64"
    )
    with tf.GradientTape() as tape:
        tape.watch(h)
        value = ACTIVATIONS[activation](h)
    want = ACTIVATIONS[activation].derivative(h.numpy())
    np.testing.assert_allclose(tape.gradient(value, h), want, rtol=1e-9, atol=1e-12)


def test_our_own_gradient(tf):
    """`feed_forward_vjp` of TensorFlow's tensors, one axis and several."""
    for x in (X, X[0, 0]):
        y, pullback = feed_forward_vjp(tf.constant(x), *there(tf), activation="silu")
        dx, dw = pullback(y)
        want_y, want = feed_forward_vjp(x, *W, activation="silu")
        want_x, want_w = want(want_y)
        for got, one in zip((dx, *dw), (want_x, *want_w), strict=True):
            np.testing.assert_allclose(got, one, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("jit", [None, True], ids=["graph", "xla"])
def test_a_graph_for_any_batch(tf, jit):
    """One trace for all lengths, or, by XLA, one a length."""
    weights, traced = there(tf), []

    @tf.function(input_signature=[tf.TensorSpec([None, None, 4], "float64")], jit_compile=jit)
    def network(x):
        traced.append(x)
        return sublayer(x, weights, lambda h: rms_norm(h, None), activation=GATE)

    for x in (X, X[:1], np.zeros((0, 3, 4)), X[:, :2]):
        want = sublayer(x, W, lambda h: rms_norm(h, None), activation=GATE)
        np.testing.assert_allclose(network(tf.constant(x)), want, rtol=1e-11, atol=1e-12)
    assert len(traced) == 1


def test_wrong_shapes_are_refused_while_a_graph_is_made(tf):
    @tf.function(input_signature=[tf.TensorSpec([None, 5], "float64")])
    def network(x):
        return feed_forward(x, *there(tf))

    with pytest.raises(ValueError, match=r"x must have shape \(\.\.\., d_model\) with d_model = 4"):
        network.get_concrete_function()


def test_a_saved_model(tf, tmp_path):
    class Module(tf.Module):
        def __init__(self):
            super().__init__()
            self.held = [tf.Variable(w) for w in there(tf)]

        @tf.function(input_signature=[tf.TensorSpec([None, None, 4], "float64")])
        def __call__(self, x):
            return feed_forward(x, *self.held, activation="gelu_tanh")

    tf.saved_model.save(Module(), str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    np.testing.assert_allclose(loaded(tf.constant(X)), expected(activation="gelu_tanh"), rtol=1e-11, atol=1e-12)


def test_mapped(tf):
    weights = there(tf)
    mapped = tf.vectorized_map(lambda x: feed_forward(x, *weights, activation="mish"), tf.constant(X))
    np.testing.assert_allclose(mapped, expected(activation="mish"), rtol=1e-11, atol=1e-12)


def test_hidden_and_norms(tf):
    weights, x = there(tf), tf.constant(X)
    want = hidden(X, W.W1, W.b1, W.V, W.c, activation="gelu")
    got = hidden(x, weights.W1, weights.b1, weights.V, weights.c, activation="gelu")
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12)
    gamma, beta = W.b2 + 1, W.b2 - 1
    np.testing.assert_allclose(
        layer_norm(x, tf.constant(gamma), tf.constant(beta)), layer_norm(X, gamma, beta), rtol=1e-11
    )
    assert layer_norm(tf.cast(x, "bfloat16"), None, None).dtype == tf.bfloat16


def test_ragged_and_sparse_tensors_are_no_arrays(tf):
    for x in (tf.ragged.constant([[1.0], [1.0, 2.0]]), tf.sparse.from_dense(tf.ones((2, 4)))):
        with pytest.raises(TypeError, match="x must be an array"):
            feed_forward(x, *there(tf))


def test_an_array_of_numpy_among_tensors_is_named(tf):
    with pytest.raises(TypeError, match=r"must belong to one library, got x of tensorflow and W1 of numpy"):
        feed_forward(tf.constant(X), *W)
