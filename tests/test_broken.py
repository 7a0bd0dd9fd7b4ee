"""What once broke: each test is the smallest case of a kind of fault."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from portable_ffn import (
    ClippedGate,
    Weights,
    checkpoint,
    feed_forward,
    feed_forward_vjp,
    init_weights,
    layer_norm,
    rms_norm,
)
from portable_ffn.testing import BACKENDS


def in_place(g):
    """silu that works in the memory it is given, and so does its derivative."""
    return np.divide(g, 1 + np.exp(-g), out=g)


def its_derivative(g):
    s = 1 / (1 + np.exp(-g))
    return np.add(s, g * s * (1 - s), out=g)


class InPlaceGate:
    def gate(self, g, u):
        return np.multiply(g, u, out=g)

    def gate_vjp(self, g, u, d):
        by_g = d * u
        return by_g, np.multiply(g, d, out=g)


@pytest.mark.parametrize("gated", [False, True])
def test_a_gradient_is_right_although_the_activation_works_in_place(gated):
    in_place.derivative = its_derivative
    weights = init_weights(4, 8, gated=gated)
    x = np.linspace(-2, 2, 20).reshape(5, 4)
    y, pullback = feed_forward_vjp(x, *weights, activation=in_place)
    want, right = feed_forward_vjp(x, *weights, activation="silu")
    np.testing.assert_allclose(y, want, rtol=1e-13)
    for got, expected in zip(flat(pullback(x)), flat(right(x)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)


def test_a_gradient_is_right_although_the_gate_works_in_place():
    weights = init_weights(4, 8, gated=True)
    x = np.linspace(-2, 2, 20).reshape(5, 4)
    got = flat(feed_forward_vjp(x, *weights, activation=InPlaceGate())[1](x))
    for one, other in zip(got, flat(feed_forward_vjp(x, *weights, activation="identity")[1](x)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def flat(gradients):
    """dx and the gradients of the weights that are there."""
    dx, weights = gradients
    return [dx, *(d for d in weights if d is not None)]


@pytest.mark.parametrize("dtype", ["complex128", "U3"])
def test_an_activation_returns_real_numbers(dtype):
    weights = init_weights(4, 8)
    with pytest.raises(TypeError, match="activation must return real numbers, got dtype"):
        feed_forward(np.ones((3, 4)), *weights, activation=lambda g: g.astype(dtype))


@pytest.mark.parametrize("norm", [layer_norm, rms_norm])
@pytest.mark.parametrize("shape", [(3, 0), (0,), (0, 0), (0, 4)])
def test_a_norm_of_nothing_is_empty_without_a_word(norm, shape):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = norm(np.zeros(shape, np.float16), np.ones(shape[-1], np.float32))
    assert y.shape == shape
    assert y.dtype == np.float32


def test_gates_called_on_their_own_are_quiet():
    huge = np.array([1e300, -1e300, np.inf, 0.0])
    with np.errstate(all="raise"):
        for gate in (ClippedGate(None), ClippedGate(7.0, 1.702, 1.0)):
            gate.gate(huge, huge)
            gate.gate_vjp(huge, huge, huge)


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


NETWORKS = """
import sys
import numpy as np

print("the module prints")


def prints(x, W1, b1, W2, b2):
    print("the network prints")
    return np.maximum(x @ W1 + b1, 0) @ W2 + b2


def ends(x, W1, b1, W2, b2):
    sys.exit(0)
"""


def command(*words: str, cwd: Path, out: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """`portable-ffn` in a process of its own."""
    started = [sys.executable, "-m", "portable_ffn", *words]
    return subprocess.run(started, cwd=cwd, stdout=out, stderr=subprocess.PIPE, text=True, check=False)


CHECK = ("--backend", "numpy", "--dtype", "float64", "--json")


def test_what_a_network_prints_is_not_among_the_json(tmp_path):
    (tmp_path / "networks.py").write_text(NETWORKS)
    done = command("check", "--ffn", "networks:prints", *CHECK, cwd=tmp_path)
    assert json.loads(done.stdout)["passed"]
    assert done.returncode == 0
    assert "the network prints" in done.stderr
    assert "the module prints" in done.stderr


def test_a_network_that_ends_the_process_has_not_passed(tmp_path):
    (tmp_path / "networks.py").write_text(NETWORKS)
    done = command("check", "--ffn", "networks:ends", *CHECK, cwd=tmp_path)
    assert {row["status"] for row in json.loads(done.stdout)["rows"]} == {"error"}
    assert done.returncode == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a full device is Linux's")
def test_a_full_disk_is_no_difference(tmp_path):
    with open("/dev/full", "w") as full:
        done = command("backends", "--json", cwd=tmp_path, out=full.fileno())
    assert done.returncode == 2
    assert done.stderr.strip() == "portable-ffn backends: the output can't be written: No space left on device"


def bert(path: Path, extra: dict | None = None, **config) -> Path:
    """A checkpoint of one layer of BERT's kind."""
    from safetensors.numpy import save_file

    stem = "encoder.layer.0."
    tensors = {
        f"{stem}intermediate.dense.weight": np.ones((8, 4), np.float32),
        f"{stem}intermediate.dense.bias": np.ones(8, np.float32),
        f"{stem}output.dense.weight": np.ones((4, 8), np.float32),
        f"{stem}output.dense.bias": np.ones(4, np.float32),
        f"{stem}output.LayerNorm.weight": np.ones(4, np.float32),
    }
    tensors |= {stem + name: array for name, array in (extra or {}).items()}
    save_file(tensors, path / "model.safetensors")
    said = {"model_type": "bert", "hidden_size": 4, "intermediate_size": 8, "hidden_act": "gelu", **config}
    (path / "config.json").write_text(json.dumps(said))
    return path


@pytest.mark.parametrize(
    "name", ["intermediate.dense.weight_scale", "output.dense.weight_g", "output.dense.parametrizations.weight.0.base"]
)
def test_what_lies_beside_a_matrix_in_its_own_module_is_never_dropped(tmp_path, name):
    assert checkpoint.load(bert(tmp_path)).weights.d_ff == 8
    with pytest.raises(checkpoint.CheckpointError, match=f"it also holds encoder.layer.0.{name}"):
        checkpoint.load(bert(tmp_path, {name: np.ones(8, np.float32)}))


@pytest.mark.parametrize("value", [["gelu", "relu"], {"kind": "relu"}, 3, True])
def test_an_activation_that_is_no_name_is_not_replaced_by_the_family_s(tmp_path, value):
    with pytest.raises(checkpoint.Undecided, match="which is no activation that is known; pass activation="):
        checkpoint.load(bert(tmp_path, hidden_act=value))


def test_bytes_in_another_order_are_no_dtype():
    weights = init_weights(4, 8)
    swapped = Weights(*(None if w is None else w.astype(w.dtype.newbyteorder()) for w in weights))
    x = np.ones((3, 4)).astype(">f8")
    y = feed_forward(x, *swapped, activation="gelu")
    assert y.dtype == np.float64
    assert y.dtype.isnative
    assert np.allclose(y, feed_forward(np.ones((3, 4)), *weights, activation="gelu"), rtol=1e-14)


def test_an_error_of_the_callers_own_activation_keeps_its_cause():
    def activation(h):
        try:
            raise KeyError("cause")
        except KeyError as error:
            raise ValueError("mine") from error

    with pytest.raises(ValueError, match="mine") as raised:
        feed_forward(np.ones((3, 4)), *init_weights(4, 8), activation=activation)
    assert isinstance(raised.value.__cause__, KeyError)


@pytest.mark.parametrize("lost", ["intermediate", "output"])
def test_a_checkpoint_that_has_lost_a_bias_is_refused(lost, tmp_path):
    from portable_ffn.checkpoint._files.save import save_tensors

    tensors = {}
    for part, shape in (("intermediate", (32, 8)), ("output", (8, 32))):
        tensors[f"encoder.layer.0.{part}.dense.weight"] = np.ones(shape, dtype="float32")
        if part != lost:
            tensors[f"encoder.layer.0.{part}.dense.bias"] = np.ones(shape[0], dtype="float32")
    save_tensors(tmp_path / "model.safetensors", tensors, {})
    config = {"model_type": "bert", "hidden_act": "gelu", "hidden_size": 8, "intermediate_size": 32}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(checkpoint.CheckpointError, match=f"{lost}.dense.weight must have a bias"):
        checkpoint.load(tmp_path, layer=0)


def test_a_seed_is_no_negative_number(capsys):
    from portable_ffn.__main__ import main

    with pytest.raises(SystemExit) as raised:
        main(["check", "--seed", "-1"])
    assert raised.value.code == 2
    assert "must be a whole number, zero or more, got '-1'" in capsys.readouterr().err


def test_a_module_that_ends_the_process_was_not_checked(tmp_path, monkeypatch, capsys):
    from portable_ffn.__main__ import main

    (tmp_path / "ending.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    assert main(["check", "--ffn", "ending:network"]) == 2
    assert "ending can't be imported: SystemExit" in capsys.readouterr().err


def test_hard_swish_does_not_overflow_before_its_value_does():
    for row in BACKENDS.values():
        if ":" not in row.name and row.missing() is None and row.name != "ndonnx":
            one = row.put([[1.0]], "float32")
            y = feed_forward(row.put([[1e38], [-1e38]], "float32"), one, None, one, None, activation="hard_swish")
            assert np.allclose(row.take(y)[:, 0], [1e38, 0.0], rtol=1e-6), row.name
