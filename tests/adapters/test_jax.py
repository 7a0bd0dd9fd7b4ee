"""What people do with a module of Flax or Equinox, done to the network's."""

import copy
import pickle

import numpy as np
import pytest

from portable_ffn import ClippedGate, feed_forward, init_weights

jax = pytest.importorskip("jax", reason="JAX is not installed; a demanded backend fails in the matrix")
nnx = pytest.importorskip("flax.nnx", reason="Flax is not installed")
eqx = pytest.importorskip("equinox", reason="Equinox is not installed")
optax = pytest.importorskip("optax", reason="optax comes with Flax")

import jax.numpy as jnp  # noqa: E402

from portable_ffn.adapters import equinox, flax  # noqa: E402

X = np.random.default_rng(0).standard_normal((32, 4))
TARGET = np.sin(3 * X)
STEPS = 8


def on_jax():
    return jnp.asarray(X)


def flax_of(seed=0, **settings):
    return flax.FeedForward(4, 8, **settings, param_dtype=jnp.float64, rngs=nnx.Rngs(seed))


def equinox_of(seed=0, **settings):
    return equinox.FeedForward(4, 8, **settings, dtype=jnp.float64, key=jax.random.key(seed))


# --- Flax ----------------------------------------------------------------------------------------------------------


class FlaxOwn(nnx.Module):
    """The network as people write it with Linear layers; gated where there is a third."""

    def __init__(self, gated, bias, rngs):
        settings = {"use_bias": bias, "param_dtype": jnp.float64, "rngs": rngs}
        self.first, self.second = nnx.Linear(4, 8, **settings), nnx.Linear(8, 4, **settings)
        self.gate = nnx.data(nnx.Linear(4, 8, **settings) if gated else None)

    def __call__(self, x):
        a = nnx.silu(self.first(x))
        return self.second(a if self.gate is None else a * self.gate(x))


def flax_losses(module):
    optimizer = nnx.Optimizer(module, optax.adam(0.01), wrt=nnx.Param)

    @nnx.jit
    def step(module, optimizer):
        loss, gradients = nnx.value_and_grad(lambda module: ((module(X) - TARGET) ** 2).mean())(module)
        optimizer.update(module, gradients)
        return loss

    return [float(step(module, optimizer)) for _ in range(STEPS)]


@pytest.mark.parametrize(("gated", "bias"), [(False, True), (True, False)])
def test_flax_trains_along_the_trajectory_of_its_own_layers(gated, bias):
    own = FlaxOwn(gated, bias, nnx.Rngs(3))
    module = flax_of(3, activation="silu", gated=gated, bias=bias)
    assert jnp.array_equal(module.W1[...], own.first.kernel[...])  # the same draws
    assert jnp.array_equal(module.W2[...], own.second.kernel[...])
    ours, theirs = flax_losses(module), flax_losses(own)
    assert ours[-1] < 0.95 * ours[0]
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_flax_state_is_split_merged_updated_and_copied():
    module = flax_of(activation="silu", gated=True, dropout=0.5)
    module.eval()
    graph, parameters, rest = nnx.split(module, nnx.Param, ...)
    assert sorted(parameters) == ["V", "W1", "W2", "b1", "b2", "c"]
    merged = nnx.merge(graph, parameters, rest)
    other = flax_of(1, activation="silu", gated=True)
    assert not jnp.array_equal(other(X), module(X))
    nnx.update(other, nnx.state(module, nnx.Param))
    for same in (merged, other, copy.deepcopy(module), nnx.clone(module), pickle.loads(pickle.dumps(module))):
        assert jnp.array_equal(same(X), module(X))


def test_flax_gradients_and_transforms():
    module = flax_of(activation=ClippedGate(7.0, 1.702, 1.0), gated=True)
    gradients = nnx.grad(lambda module: module(X).sum())(module)
    by_arrays = jax.grad(lambda w: feed_forward(on_jax(), *w, activation=module.activation).sum())(module.weights)
    for name, gradient in by_arrays._asdict().items():
        np.testing.assert_allclose(gradients[name][...], gradient, rtol=1e-12)
    mapped = nnx.vmap(lambda module, x: module(x), in_axes=(None, 0))(module, on_jax())
    np.testing.assert_allclose(mapped, module(X), rtol=1e-12)
    shape = nnx.eval_shape(lambda: flax_of())
    assert shape.W1.shape == (4, 8)


def test_flax_dropout_follows_nnx():
    module = flax_of(dropout=0.5)

    @nnx.jit
    def call(module, x):
        return module(x)

    assert not jnp.array_equal(call(module, X), call(module, X))  # the stream of random numbers goes on
    assert jnp.array_equal(module(X, deterministic=True), module(X, deterministic=True))
    assert jnp.array_equal(module(X, rngs=nnx.Rngs(dropout=7)), module(X, rngs=nnx.Rngs(dropout=7)))
    module.eval()
    assert jnp.array_equal(call(module, X), call(module, X))
    loaded = flax.FeedForward.from_weights(module.weights, dropout=0.5)
    with pytest.raises(ValueError, match="no `rngs` argument was provided"):
        loaded(X)
    loaded.eval()
    assert jnp.array_equal(loaded(X), module(X))


def test_flax_dtype_is_that_of_the_computation():
    module = flax.FeedForward(4, 8, dtype=jnp.bfloat16, rngs=nnx.Rngs(0))
    own = nnx.Linear(4, 8, dtype=jnp.bfloat16, rngs=nnx.Rngs(0))
    x = jnp.ones((2, 4), dtype=jnp.float32)
    assert module(x).dtype == own(x).dtype == jnp.bfloat16
    assert module.W1.dtype == own.kernel.dtype == jnp.float32


def test_flax_through_orbax_and_safetensors(tmp_path):
    module, x = flax_of(activation="silu", gated=True), X
    orbax = pytest.importorskip("orbax.checkpoint", reason="Orbax comes with Flax")
    with orbax.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "state", nnx.state(module))
        checkpointer.wait_until_finished()
        abstract = nnx.eval_shape(lambda: flax_of(activation="silu", gated=True))
        graph, wanted = nnx.split(abstract)
        restored = nnx.merge(graph, checkpointer.restore(tmp_path / "state", wanted))
    assert jnp.array_equal(restored(x), module(x))

    safetensors = pytest.importorskip("safetensors.flax", reason="safetensors is not installed")
    state = {name: array for name, array in module.weights._asdict().items() if array is not None}
    safetensors.save_file(state, tmp_path / "state.safetensors")
    other = flax_of(1, activation="silu", gated=True)
    for name, array in safetensors.load_file(tmp_path / "state.safetensors").items():
        getattr(other, name)[...] = array
    assert jnp.array_equal(other(x), module(x))


# --- Equinox -------------------------------------------------------------------------------------------------------


class EquinoxOwn(eqx.Module):
    """The network as people write it with Linear layers; gated where there is a third."""

    first: eqx.nn.Linear
    second: eqx.nn.Linear
    gate: eqx.nn.Linear | None

    def __init__(self, gated, bias, key):
        first, second, third = jax.random.split(key, 3)
        self.first = eqx.nn.Linear(4, 8, bias, jnp.float64, key=first)
        self.second = eqx.nn.Linear(8, 4, bias, jnp.float64, key=second)
        self.gate = eqx.nn.Linear(4, 8, bias, jnp.float64, key=third) if gated else None

    def __call__(self, x):
        a = jax.nn.silu(jax.vmap(self.first)(x))
        return jax.vmap(self.second)(a if self.gate is None else a * jax.vmap(self.gate)(x))


def equinox_losses(module):
    optimizer = optax.adam(0.01)
    state = optimizer.init(eqx.filter(module, eqx.is_inexact_array))

    @eqx.filter_jit
    def step(module, state):
        loss, gradients = eqx.filter_value_and_grad(lambda module: ((module(X) - TARGET) ** 2).mean())(module)
        updates, state = optimizer.update(gradients, state)
        return loss, eqx.apply_updates(module, updates), state

    found = []
    for _ in range(STEPS):
        loss, module, state = step(module, state)
        found.append(float(loss))
    return found


@pytest.mark.parametrize(("gated", "bias"), [(False, True), (True, False)])
def test_equinox_trains_along_the_trajectory_of_its_own_layers(gated, bias):
    own = EquinoxOwn(gated, bias, jax.random.key(3))
    module = equinox_of(3, activation="silu", gated=gated, bias=bias)
    assert jnp.array_equal(module.W1, own.first.weight.T)  # the same draws
    assert jnp.array_equal(module.W2, own.second.weight.T)
    ours, theirs = equinox_losses(module), equinox_losses(own)
    assert ours[-1] < 0.95 * ours[0]
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_equinox_jit_vmap_and_ensembles():
    module = equinox_of(activation="silu", gated=True)
    expected = module(X)
    np.testing.assert_allclose(eqx.filter_jit(module)(on_jax()), expected, rtol=1e-12)
    np.testing.assert_allclose(eqx.filter_vmap(module)(on_jax()), expected, rtol=1e-12)
    keys = jax.random.split(jax.random.key(0), 3)
    ensemble = eqx.filter_vmap(lambda key: equinox.FeedForward(4, 8, dtype=jnp.float64, key=key))(keys)
    each = eqx.filter_vmap(lambda module, x: module(x), in_axes=(eqx.if_array(0), None))(ensemble, on_jax())
    assert each.shape == (3, 32, 4)
    second = equinox.FeedForward(4, 8, dtype=jnp.float64, key=keys[1])
    np.testing.assert_allclose(each[1], second(X), rtol=1e-12)


def test_equinox_square_input_without_bias():
    # eqx.nn.Linear on a square of two axes and no bias multiplies from the other side, silently.
    module = equinox.FeedForward(4, 8, bias=False, dtype=jnp.float64, key=jax.random.key(0))
    square = jnp.asarray(X[:4])
    np.testing.assert_allclose(module(square), jnp.stack([module(row) for row in square]), rtol=1e-12)


def test_equinox_leaves_are_serialised_and_edited(tmp_path):
    module = equinox_of(activation=ClippedGate(7.0), gated=True, bias=False)
    eqx.tree_serialise_leaves(tmp_path / "leaves.eqx", module)
    like = equinox_of(1, activation=ClippedGate(7.0), gated=True, bias=False)
    assert not jnp.array_equal(like(X), module(X))
    loaded = eqx.tree_deserialise_leaves(tmp_path / "leaves.eqx", like)
    skeleton = eqx.filter_eval_shape(equinox_of, activation=ClippedGate(7.0), gated=True, bias=False)
    lean = eqx.tree_deserialise_leaves(tmp_path / "leaves.eqx", skeleton)
    for same in (loaded, lean, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert jnp.array_equal(same(X), module(X))
    doubled = eqx.tree_at(lambda m: m.W2, module, 2 * module.W2)
    np.testing.assert_allclose(doubled(X), 2 * module(X), rtol=1e-12)


def test_equinox_dropout_asks_for_a_key():
    module = equinox_of(dropout=0.5)
    with pytest.raises(RuntimeError, match="Dropout requires a key"):
        module(X)
    call = eqx.filter_jit(lambda module, x, key: module(x, key=key))
    first, second = jax.random.split(jax.random.key(1))
    assert not jnp.array_equal(call(module, on_jax(), first), call(module, on_jax(), second))
    assert jnp.array_equal(call(module, on_jax(), first), call(module, on_jax(), first))
    resting = eqx.nn.inference_mode(module)
    assert jnp.array_equal(resting(X), module(X, inference=True))
    assert jnp.array_equal(call(resting, on_jax(), first), call(resting, on_jax(), second))


def test_an_activation_with_parameters_is_trained():
    module = equinox_of(activation=eqx.nn.PReLU(0.25))
    gradient = eqx.filter_grad(lambda module: module(X).sum())(module)
    assert gradient.activation.negative_slope != 0


# --- both ----------------------------------------------------------------------------------------------------------


def test_float64_is_not_narrowed_silently():
    weights = init_weights(4, 8)
    for cls in (flax.FeedForward, equinox.FeedForward):
        with jax.enable_x64(False), pytest.raises(TypeError, match="jax holds as configured, got float64"):
            cls.from_weights(weights)


def test_memory_of_the_caller_is_never_donated():
    weights = init_weights(64, 64)
    module = equinox.FeedForward.from_weights(weights)
    before = weights.W1.copy()
    step = jax.jit(lambda w: w * 2, donate_argnums=0)
    step(module.W1).block_until_ready()
    step(weights.to(like=jnp.zeros(1)).W1).block_until_ready()
    assert np.array_equal(weights.W1, before)
