"""What people do with a layer of Keras, done to the network's, on each backend in a process of its own."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

if find_spec("keras") is None:
    pytest.skip("Keras is not installed", allow_module_level=True)

# Every program has these names. Warnings are errors but for what Keras 3.15 does by itself.
PRELUDE = """
import sys, warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", "__array__ implementation doesn't accept a copy keyword", DeprecationWarning)
import numpy as np
import keras
from portable_ffn import ClippedGate, Weights, feed_forward, init_weights, oracle
from portable_ffn.adapters.keras import FeedForward
from portable_ffn.testing import assert_agrees

backend = keras.backend.backend()
folder = sys.argv[1]
x = np.random.default_rng(0).standard_normal((32, 5, 4)).astype("float32")
target = np.sin(3 * x)
GATE = ClippedGate(7.0, 1.702, 1.0)

def model_of(*layers):
    return keras.Sequential([keras.Input((5, 4)), *layers])

def agrees(y, weights, activation, dtype="float32"):
    arrays = Weights(*weights).to(like=np.zeros(0, dtype=bool))
    expected = oracle.feed_forward(x, *arrays, activation=activation, dtype=dtype)
    like = y if isinstance(y, np.ndarray) else weights[0]
    assert_agrees(y, like, *expected, dtype=dtype)

def equal(a, b):
    assert np.array_equal(*map(keras.ops.convert_to_numpy, (a, b)))
"""

PREDICTS = """
for settings in (
    {"activation": "gelu"},
    {"activation": "silu", "gated": True, "bias": False},
    {"activation": GATE, "gated": True, "dropout": 0.5, "seed": 3},
    {"activation": keras.activations.softsign},
):
    layer = FeedForward(4, 8, **settings, name="mlp")
    model = model_of(layer)
    y = model.predict(x, verbose=0)
    agrees(y, layer.weights, "softsign" if callable(settings["activation"]) and settings["activation"] is not GATE
           else settings["activation"])
    equal(y, model.predict(x, verbose=0))  # no dropout
    assert isinstance(layer.weights, Weights)

    # Keras' own ways with variables
    count = sum(v is not None for v in layer.weights)
    assert [v.name for v in layer.variables][:count] == [n for n in Weights._fields if getattr(layer, n) is not None]
    assert len(model.get_weights()) == len(model.weights) == len(layer.trainable_weights) == count
    assert model.count_params() == layer.count_params() == layer.weights.num_parameters
    model.summary(print_fn=lambda *_, **__: None)

    model.save(f"{folder}/model.keras")
    loaded = keras.models.load_model(f"{folder}/model.keras")
    equal(loaded.predict(x, verbose=0), y)
    assert loaded.layers[0].get_config() == layer.get_config()
    again = FeedForward.from_config(layer.get_config())
    assert again.activation == layer.activation
    assert again.dropout == layer.dropout

    model.save_weights(f"{folder}/model.weights.h5")
    other = model_of(FeedForward(4, 8, **settings))
    other.load_weights(f"{folder}/model.weights.h5")
    equal(other.predict(x, verbose=0), y)
    other.set_weights([2 * w for w in model.get_weights()])
    equal(other.get_weights()[0], 2 * model.get_weights()[0])

# Shapes that no settings can say: a projection with one bias
full = init_weights(4, 8, dtype="float32")
layer = FeedForward.from_weights(full._replace(b1=None, W2=full.W2[:, :3], b2=full.b2[:3]), activation="gelu_tanh")
model = model_of(layer)
assert model.output_shape == (None, 5, 3)
agrees(model.predict(x, verbose=0), layer.weights, "gelu_tanh")
model.save(f"{folder}/projection.keras")
equal(keras.models.load_model(f"{folder}/projection.keras").predict(x, verbose=0), model.predict(x, verbose=0))

# Dense is initialised so
limit = (6 / (4 + 64)) ** 0.5
layer = FeedForward(4, 64, gated=True)
layer.build()
for W in (layer.W1, layer.V, layer.W2):
    values = np.abs(keras.ops.convert_to_numpy(W))
    assert 0.9 * limit < values.max() <= limit
assert not any(keras.ops.convert_to_numpy(b).any() for b in (layer.b1, layer.b2, layer.c))

# Mixed precision: variables in float32, the computation in bfloat16
layer = FeedForward(4, 8, dtype="mixed_bfloat16", dropout=0.5)
for training in (False, True):
    assert keras.backend.standardize_dtype(layer(x, training=training).dtype) == "bfloat16"
assert keras.backend.standardize_dtype(layer.weights.W1.dtype) == "float32"
assert layer(keras.Input((5, 4))).dtype == "bfloat16"
equal(layer(x)[0], layer(x[0]))
try:
    layer(np.ones((2, 3), dtype="float32"))
except ValueError as error:
    assert "expected axis -1 of input shape to have value 4" in str(error), error
else:
    raise AssertionError("an x of another width")

# Two meanings of one name: the names here are those of portable_ffn
weights = init_weights(4, 8, dtype="float32")
for name, own in (("gelu", keras.activations.gelu), ("gelu_tanh", keras.ops.gelu)):
    y = model_of(FeedForward.from_weights(weights, activation=name)).predict(x, verbose=0)
    z = model_of(FeedForward.from_weights(weights, activation=own)).predict(x, verbose=0)
    np.testing.assert_allclose(y, z, atol=1e-6)
"""

FITS = """
for gated, bias, dropout in ((False, True, 0.0), (True, False, 0.0), (False, True, 0.2)):
    layer = FeedForward(4, 8, activation="silu", gated=gated, bias=bias, dropout=dropout)
    model = model_of(layer)
    model.compile(keras.optimizers.Adam(0.02), "mse")
    start = [np.array(w) for w in model.get_weights()]
    losses = model.fit(x, target, epochs=4, batch_size=16, shuffle=False, verbose=0).history["loss"]
    assert losses[-1] < losses[0], losses
    if not dropout:
        # The same trajectory as Keras' own layers from the same weights
        a = inputs = keras.Input((5, 4))
        first, second, gate = (keras.layers.Dense(n, use_bias=bias) for n in (8, 4, 8))
        a = keras.ops.silu(first(inputs))
        own = keras.Model(inputs, second(a * gate(inputs) if gated else a))
        per = 2 if bias else 1
        for i, dense in enumerate((first, second, gate)[: 3 if gated else 2]):
            dense.set_weights(start[per * i : per * i + per])
        own.compile(keras.optimizers.Adam(0.02), "mse")
        theirs = own.fit(x, target, epochs=4, batch_size=16, shuffle=False, verbose=0).history["loss"]
        np.testing.assert_allclose(losses, theirs, rtol=1e-4)
    y = model.predict(x, verbose=0)
    agrees(y, layer.weights, "silu")
    model.save(f"{folder}/trained.keras")
    loaded = keras.models.load_model(f"{folder}/trained.keras")
    equal(loaded.predict(x, verbose=0), y)
    loaded.fit(x, target, verbose=0)  # with the state of the optimizer
"""


def run(program, backend, folder):
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "KERAS_BACKEND": backend, "JAX_ENABLE_X64": "0"},
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "backend",
    ["numpy", pytest.param("torch", marks=pytest.mark.slow), pytest.param("jax", marks=pytest.mark.slow)],
)
def test_predicts_saves_and_loads(backend, tmp_path):
    if find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    code, said = run(PRELUDE + PREDICTS + ("" if backend == "numpy" else FITS), backend, tmp_path)
    assert code == 0, said


@pytest.mark.parametrize("backend", ["tensorflow", "openvino"])
def test_a_backend_without_arrays_of_the_standard(backend, tmp_path):
    code, said = run("import portable_ffn.adapters.keras", backend, tmp_path)
    last = said.strip().splitlines()[-1]
    assert code
    assert last.startswith("ImportError: ")
    assert backend in last
    assert last.endswith("set KERAS_BACKEND to one of torch, jax, numpy before Keras is imported")


def test_another_backend_that_starts(tmp_path):
    # Whatever is installed here: Keras is told to say another name.
    program = """
import keras
keras.backend.backend = lambda: "tensorflow"
import portable_ffn.adapters.keras
"""
    code, said = run(program, "numpy", tmp_path)
    assert code
    assert "the backend of Keras must hold arrays of the array API standard, got tensorflow; set KERAS_BACKEND" in said


def test_weights_that_the_backend_cannot_hold(tmp_path):
    program = (
        PRELUDE
        + """
try:
    FeedForward.from_weights(init_weights(4, 8))
except TypeError as error:
    assert "jax holds as configured, got float64" in str(error), error
else:
    raise AssertionError("float64 was narrowed silently")
"""
    )
    if find_spec("jax") is None:
        pytest.skip("jax is not installed")
    code, said = run(program, "jax", tmp_path)
    assert code == 0, said
