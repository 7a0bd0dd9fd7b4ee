"""What holds of the network in every framework: one row a framework, one body for all."""

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portable_ffn.adapters
from portable_ffn import ClippedGate, Weights, checkpoint, init_weights, oracle
from portable_ffn._arrays.library import library_of
from portable_ffn.testing import assert_agrees

os.environ.setdefault("KERAS_BACKEND", "jax")  # the others have a process of their own

pytestmark = pytest.mark.filterwarnings(
    # Keras 3.15 lags behind NumPy 2 in its variables.
    "ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning",
)


@dataclass(frozen=True)
class Adapter:
    """How a framework's module is made, called and put into training and evaluation.

    `seeded(seed)` are the arguments of randomness, `array` makes what it is called on of NumPy's, `evaluate` returns
    the module in evaluation and `train` it in training, as functions of x.
    """

    framework: str
    array: Callable[[Any], Any]
    evaluate: Callable[[Any], Callable[[Any], Any]]
    train: Callable[[Any], Callable[[Any], Any]]
    seeded: Callable[[int], dict[str, Any]] = lambda seed: {}

    def cls(self):
        return import_module(f"portable_ffn.adapters.{self.framework}").FeedForward

    def make(self, *widths, seed=0, **settings):
        return self.cls()(*widths, **settings, **self.seeded(seed))

    def of(self, weights, **settings):
        return self.cls().from_weights(weights, **settings)


def jax_array(values):
    return import_module("jax.numpy").asarray(values)


def flax_in(mode):
    def start(module):
        getattr(module, mode)()
        return module

    return start


def equinox_key(seed):
    return {"key": import_module("jax").random.key(seed)}


def equinox_seeded(seed):
    return {**equinox_key(seed), "dtype": "float32"}  # its default is JAX's, float64 in this process


ADAPTERS = {
    "torch": Adapter(
        "torch",
        array=lambda values: import_module("torch").asarray(np.array(values)),
        evaluate=lambda module: module.eval(),
        train=lambda module: module.train(),
    ),
    "flax": Adapter(
        "flax",
        array=jax_array,
        evaluate=flax_in("eval"),
        train=flax_in("train"),
        seeded=lambda seed: {"rngs": import_module("flax.nnx").Rngs(seed)},
    ),
    "equinox": Adapter(
        "equinox",
        array=jax_array,
        evaluate=lambda module: import_module("equinox").nn.inference_mode(module),
        train=lambda module: lambda x: module(x, **equinox_key(1)),
        seeded=equinox_seeded,
    ),
    "keras": Adapter(
        "keras",
        array=jax_array,
        evaluate=lambda module: module,
        train=lambda module: lambda x: module(x, training=True),
    ),
}
GRAPHS = {"onnx"}  # an adapter that makes no module
INSTALLED = [row for row in ADAPTERS.values() if find_spec(row.framework)]
every_adapter = pytest.mark.parametrize("adapter", INSTALLED, ids=lambda adapter: adapter.framework)
GATE = ClippedGate(7.0, 1.702, 1.0)


def arrays_of(weights):
    """Weights of any library in NumPy."""
    return weights.to(like=np.zeros(0, dtype=bool))


def agrees(module, x, adapter, activation):
    """The answer of a module in evaluation is within the bound of the oracle's for its weights."""
    given = adapter.array(x)
    answer = adapter.evaluate(module)(given)
    assert_agrees(answer, given, *oracle.feed_forward(x, *arrays_of(module.weights), activation=activation))


# --- the rows ------------------------------------------------------------------------------------------------------


def test_every_adapter_has_a_row():
    folder = Path(portable_ffn.adapters.__file__).parent
    there = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert there - GRAPHS == set(ADAPTERS), "give the adapter a row in ADAPTERS"


@every_adapter
def test_what_is_no_weights_is_refused(adapter, tmp_path):
    weights = init_weights(4, 8, dtype="float32")
    path = tmp_path / "layer.safetensors"
    checkpoint.save(path, weights, activation="silu")
    with pytest.raises(TypeError, match=r"got Network; pass its \.weights, and its activation"):
        adapter.of(checkpoint.load(path))
    with pytest.raises(TypeError, match="weights must be Weights, got dict"):
        adapter.of({"W1": weights.W1})


@pytest.mark.parametrize("framework", [*ADAPTERS])
def test_a_missing_framework_names_the_extra(framework):
    program = f"import sys; sys.modules[{framework!r}] = None; import portable_ffn.adapters.{framework}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError")
    assert f'which is not installed; install it by pip install "portable-ffn[{framework}]"' in last


# What a framework loads by itself is its own matter: Keras asks JAX even on its NumPy backend.
@pytest.mark.parametrize("adapter", INSTALLED, ids=lambda adapter: adapter.framework)
def test_importing_one_loads_no_other_framework(adapter):
    others = [*ADAPTERS, "onnx", "onnxruntime", "mlx", "dask", "ndonnx", "tensorflow"]
    others.remove(adapter.framework)
    program = f"import sys, portable_ffn.adapters.{adapter.framework} as _; print(sys.modules.keys() & {set(others)!r})"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "KERAS_BACKEND": "jax"},
    )
    assert done.stdout.strip() == "set()"


# --- the same arguments, the same parameters -----------------------------------------------------------------------


@every_adapter
def test_the_same_arguments_everywhere(adapter):
    parameters = inspect.signature(adapter.cls().__init__).parameters
    defaults = {"d_ff": None, "activation": "relu", "gated": False, "bias": True, "dropout": 0.0}
    assert list(parameters)[1:3] == ["d_model", "d_ff"]
    assert {name: parameters[name].default for name in defaults} == defaults
    assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in list(defaults)[1:])


@every_adapter
def test_the_parameters(adapter):
    plain, gated = adapter.make(6), adapter.make(6, gated=True, activation="silu")
    bare = adapter.make(6, 5, gated=True, bias=False)
    assert isinstance(plain.weights, Weights)
    assert (plain.weights.d_model, plain.weights.d_ff, plain.weights.gated) == (6, 24, False)
    assert (gated.weights.d_ff, gated.weights.gated) == (64, True)
    assert [tuple(array.shape) for array in gated.weights] == [(6, 64), (64,), (64, 6), (6,), (6, 64), (64,)]
    assert [name for name, array in bare.weights._asdict().items() if array is None] == ["b1", "b2", "c"]
    assert [name for name in Weights._fields if getattr(bare, name) is None] == ["b1", "b2", "c"]
    assert [tuple(getattr(bare, name).shape) for name in ("W1", "W2", "V")] == [(6, 5), (5, 6), (6, 5)]


@every_adapter
@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"activation": "swoosh"}, ValueError, "activation must be one of .*got 'swoosh'"),
        ({"activation": 3}, TypeError, "activation must be a name, a gate"),
        ({"activation": GATE}, ValueError, "where V is None, got the gate"),
        ({"dropout": 1.0}, ValueError, "dropout must be the share of the hidden layer to drop, .* got 1.0"),
        ({"dropout": float("nan")}, ValueError, "0 <= dropout < 1, got nan"),
        ({"d_ff": -1}, ValueError, "d_ff must be zero or more, got -1"),
        ({"d_ff": 2.5}, TypeError, r"d_ff must be an integer, got 2\.5"),
    ],
)
def test_settings_that_cannot_be(adapter, settings, error, match):
    with pytest.raises(error, match=match):
        adapter.make(4, **settings)


# --- the same answers ----------------------------------------------------------------------------------------------


@every_adapter
@pytest.mark.parametrize(
    ("activation", "gated", "bias"),
    [("relu", False, True), ("gelu", False, False), ("silu", True, False), (GATE, True, True)],
    ids=["plain", "bare", "swiglu", "clipped"],
)
def test_the_answer_is_the_oracle_s(adapter, activation, gated, bias):
    module = adapter.make(4, 8, activation=activation, gated=gated, bias=bias)
    shapes = [(4, 4)]  # square: its rows are the positions
    if activation == "relu":
        shapes += [(2, 3, 4), (0, 4)]
        if adapter.framework != "keras":
            shapes.append((4,))  # Keras itself makes (4, 1) of it
    for shape in shapes:
        agrees(module, np.random.default_rng(0).standard_normal(shape).astype("float32"), adapter, activation)


@every_adapter
def test_a_callable_of_the_framework_s_own(adapter):
    # Keras' activations.gelu and ops.gelu have different defaults; a name here has one meaning.
    own = {
        "torch": lambda: import_module("torch").nn.GELU(approximate="tanh"),
        "flax": lambda: import_module("flax.nnx").gelu,
        "equinox": lambda: import_module("jax").nn.gelu,
        "keras": lambda: import_module("keras").ops.gelu,
    }[adapter.framework]()
    module = adapter.make(4, 8, activation=own, seed=3)
    agrees(module, np.random.default_rng(0).standard_normal((3, 4)).astype("float32"), adapter, "gelu_tanh")


@every_adapter
def test_weights_of_every_library_and_shape(adapter):
    x = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")
    full = init_weights(4, 8, gated=True, dtype="float32")
    projection = Weights(full.W1, None, full.W2[:, :3], full.b2[:3])  # narrower, and with one bias only
    for weights in (full, full._replace(c=None), projection):
        module = adapter.of(weights, activation="silu")
        for before, after in zip(weights, arrays_of(module.weights), strict=True):
            assert (before is None) == (after is None)
            assert before is None or np.array_equal(before, after)
        agrees(module, x, adapter, "silu")
    with pytest.raises(ValueError, match=r"W2 must have shape \(d_ff, d_model\)"):
        adapter.of(full._replace(W2=full.W1))


@every_adapter
def test_weights_are_copied(adapter):
    weights = init_weights(4, 8, dtype="float32")
    module = adapter.of(weights)
    before = arrays_of(module.weights).W1.copy()
    weights.W1[...] = 0
    assert np.array_equal(arrays_of(module.weights).W1, before)
    like = adapter.array(np.zeros(1, dtype="float32"))
    again = adapter.of(init_weights(4, 8, like=like))
    assert library_of(again.weights.W1) == library_of(like)


@every_adapter
def test_a_dtype_that_is_asked_for(adapter):
    argument = "param_dtype" if adapter.framework == "flax" else "dtype"
    module = adapter.of(init_weights(4, 8), **{argument: "bfloat16"})
    x = adapter.array(np.ones((2, 4), dtype="float32"))
    assert "bfloat16" in str(module.weights.W1.dtype)
    answer = adapter.evaluate(module)(x)
    # Keras casts what comes in to the layer's dtype; the others promote.
    assert ("bfloat16" if adapter.framework == "keras" else "float32") in str(answer.dtype)


@pytest.mark.parametrize("target", INSTALLED, ids=lambda adapter: f"to-{adapter.framework}")
@pytest.mark.parametrize("source", INSTALLED, ids=lambda adapter: f"from-{adapter.framework}")
def test_from_framework_to_framework(source, target):
    first = source.make(4, 8, activation="gelu", gated=True, seed=5, dropout=0.5)
    second = target.of(first.weights, activation="gelu", dropout=0.5)
    x = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")
    for module, adapter in ((first, source), (second, target)):
        agrees(module, x, adapter, "gelu")
    for mine, other in zip(arrays_of(first.weights), arrays_of(second.weights), strict=True):
        assert np.array_equal(mine, other)


# --- dropout -------------------------------------------------------------------------------------------------------


@every_adapter
@pytest.mark.parametrize("gated", [False, True])
def test_dropout_is_on_the_hidden_layer_and_in_training_only(adapter, gated):
    n = 64
    made = init_weights(4, n, gated=gated, dtype="float32")
    weights = made._replace(W2=np.eye(n, dtype="float32"), b2=np.zeros(n, dtype="float32"))
    settings = {"rngs": import_module("flax.nnx").Rngs(0)} if adapter.framework == "flax" else {}
    module = adapter.of(weights, activation="silu", dropout=0.25, **settings)
    x = np.random.default_rng(0).standard_normal((40, 4)).astype("float32")
    agrees(module, x, adapter, "silu")
    h = np.asarray(adapter.evaluate(module)(adapter.array(x)).tolist())
    dropped = np.asarray(adapter.train(module)(adapter.array(x)).tolist())
    kept = dropped != 0
    np.testing.assert_allclose(dropped[kept], h[kept] / 0.75, rtol=1e-6)
    assert abs(kept.mean() - 0.75) < 0.03  # three standard deviations of 2560 draws
    agrees(module, x, adapter, "silu")


@every_adapter
def test_dropout_is_never_on_by_surprise(adapter):
    module = adapter.make(4, 8)
    x = np.ones((2, 4), dtype="float32")
    agrees(module, x, adapter, "relu")
    still = np.asarray(adapter.train(module)(adapter.array(x)).tolist())
    np.testing.assert_array_equal(still, np.asarray(adapter.evaluate(module)(adapter.array(x)).tolist()))
