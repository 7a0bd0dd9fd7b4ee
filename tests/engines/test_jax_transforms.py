"""What JAX does to functions, done to the network: jit, gradients, maps, both modes, second derivatives."""

import pytest

from portable_ffn import ACTIVATIONS, ClippedGate, Weights, feed_forward, init_weights

jax = pytest.importorskip("jax", reason="JAX is not installed; a demanded backend fails in the matrix")
jnp = jax.numpy

NETWORKS = [
    *((name, gated) for name in ("relu", "gelu", "gelu_tanh", "silu", "mish") for gated in (False, True)),
    (ClippedGate(7.0, 1.702, 1.0), True),
    (ClippedGate(0.5, clip="after"), True),
]


def network(activation, gated):
    x = jnp.asarray(jax.random.normal(jax.random.key(0), (2, 3, 5), dtype=jnp.float64))
    weights = init_weights(5, 7, gated=gated, like=x)
    return x, weights, lambda x, w: feed_forward(x, *w, activation=activation)


def close(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.dtype == b.dtype
        assert jnp.allclose(a, b, rtol=1e-12, atol=1e-13), float(jnp.max(jnp.abs(a - b)))


@pytest.mark.parametrize(("activation", "gated"), NETWORKS, ids=str)
def test_jit_and_gradients(activation, gated):
    x, weights, function = network(activation, gated)
    close(jax.jit(function)(x, weights), function(x, weights))

    def loss(x, w):
        return jnp.sum(function(x, w) ** 2)

    gradients = jax.grad(loss, argnums=(0, 1))(x, weights)
    assert isinstance(gradients[1], Weights)
    close(jax.jit(jax.grad(loss, argnums=(0, 1)))(x, weights), gradients)
    # Finite differences along one direction tie the gradient to the values.
    direction = jax.tree.map(jnp.cos, (x, weights))
    step = 1e-6
    ahead, behind = (
        loss(*jax.tree.map(lambda a, d, s=sign: a + s * step * d, (x, weights), direction)) for sign in (1, -1)
    )
    slope = sum(jnp.vdot(g, d) for g, d in zip(*map(jax.tree.leaves, (gradients, direction)), strict=True))
    assert jnp.isclose((ahead - behind) / (2 * step), slope, rtol=1e-6)


@pytest.mark.parametrize(("activation", "gated"), NETWORKS, ids=str)
def test_maps_and_both_modes(activation, gated):
    x, weights, function = network(activation, gated)
    close(jax.vmap(function, in_axes=(0, None))(x, weights), function(x, weights))
    stacked = jax.tree.map(lambda a: jnp.stack([a, 2 * a]), weights)
    close(jax.vmap(function, in_axes=(None, 0))(x, stacked)[1], function(x, jax.tree.map(lambda a: 2 * a, weights)))

    value, tangent = jax.jvp(lambda x: function(x, weights), (x,), (jnp.ones_like(x),))
    _, pullback = jax.vjp(lambda x: function(x, weights), x)
    close(value, function(x, weights))
    close(jnp.vdot(tangent, value), jnp.sum(pullback(value)[0]))


@pytest.mark.parametrize(("activation", "gated"), NETWORKS, ids=str)
def test_second_derivatives(activation, gated):
    x, weights, function = network(activation, gated)
    v = jnp.sin(jnp.arange(x.size, dtype=x.dtype)).reshape(x.shape)

    def gradient(x):
        return jax.grad(lambda x: jnp.sum(function(x, weights) ** 2))(x)

    _, product = jax.jvp(gradient, (x,), (v,))
    step = 1e-6
    close_to = (gradient(x + step * v) - gradient(x - step * v)) / (2 * step)
    assert jnp.allclose(product, close_to, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_gradients_are_finite_from_end_to_end(name, dtype):
    ends = jnp.asarray([-1e4, -710.0, -104.0, -89.0, -20.0, -1.0, 0.0, 1.0, 20.0, 89.0, 1e4], dtype=dtype)
    one = jnp.ones((1, 1), dtype=dtype)
    slopes = jax.grad(lambda h: jnp.sum(feed_forward(h[:, None], one, None, one, None, activation=name)))(ends)
    assert jnp.all(jnp.isfinite(slopes))
    eps = 8 * float(jnp.finfo(dtype).eps)
    exact = ACTIVATIONS[name].derivative(ends.astype("float64"))
    assert jnp.allclose(slopes.astype("float64"), exact, rtol=eps, atol=eps)


def test_a_derivative_at_zero_is_the_left_one():
    zero, one = jnp.zeros(1), jnp.ones((1, 1))
    for name in ("relu", "relu2", "relu6"):
        assert jax.grad(lambda h, name=name: feed_forward(h, one, None, one, None, activation=name)[0])(zero)[0] == 0


def test_a_user_function_that_is_traced():
    x, weights, _ = network("relu", False)

    def function(x, w):
        return feed_forward(x, *w, activation=lambda h: jnp.sin(h))

    close(jax.jit(function)(x, weights), jnp.sin(x @ weights.W1 + weights.b1) @ weights.W2 + weights.b2)


def test_shapes_without_data():
    x, weights, function = network("gelu", True)
    y = jax.eval_shape(function, x, weights)
    assert (y.shape, y.dtype) == ((2, 3, 5), jnp.float64)


def test_weak_types_decide_no_dtype():
    x = jnp.ones((2, 4), dtype=jnp.float16)
    weights = init_weights(4, 6, like=x)
    scaled = weights._replace(b1=weights.b1 * 2.0)
    assert feed_forward(x, *scaled).dtype == jnp.float16
