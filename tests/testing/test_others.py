"""The check lets other people's sound networks pass: PyTorch's, JAX's, Flax's, Keras's, onnxruntime's."""

import importlib.util
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from portable_ffn.testing import check

# Few cases, each of which reaches something else: the curve, biases, ends, a NaN, one axis, odd sizes, long sums.
CASES = ("curve", "tails", "biases alone", "ordinary", "a NaN", "no positions", "one axis", "odd sizes",
         "a long second sum")  # fmt: skip

# For libraries that compile at each new shape.
FEW = ("curve", "ordinary", "a NaN")


def passes(report):
    assert report.passed, str(report)
    assert not [row for row in report.rows if row.cause and row.status != "gap"]


def installed(name):
    """Where a package is missing the test skips with that reason."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_sequential_of_pytorch(activation, bias, require):
    require("torch")
    import torch
    from torch import nn

    middle = {"relu": nn.ReLU(), "gelu": nn.GELU(), "gelu_tanh": nn.GELU(approximate="tanh"), "silu": nn.SiLU()}

    def network(x, W1, b1, W2, b2):
        layers = nn.Sequential(
            nn.Linear(*W1.shape, bias=bias, device="meta"), middle[activation], nn.Linear(*W2.shape, bias=bias)
        )
        for layer, W, b in ((layers[0], W1, b1), (layers[2], W2, b2)):
            layer.weight = nn.Parameter(W.T)
            layer.bias = None if b is None else nn.Parameter(b)
        with torch.no_grad():
            return layers(x)

    passes(check(network, activation=activation, bias=bias, backends="torch", cases=CASES))


def test_bare_jax(require):
    require("jax")
    import jax
    import jax.numpy as jnp

    def plain(x, W1, b1, W2, b2):
        return jnp.dot(jax.nn.gelu(jnp.dot(x, W1) + b1, approximate=False), W2) + b2

    def gated(x, W1, W2, V):
        return (jax.nn.silu(x @ W1) * (x @ V)) @ W2

    passes(check(plain, activation="gelu", backends="jax:jit", cases=FEW))
    passes(check(gated, activation="silu", gated=True, bias=False, backends="jax", dtypes="float32", cases=FEW))


def test_linear_layers_of_flax(require):
    require("jax")
    installed("flax")
    import jax
    from flax import nnx

    class MLP(nnx.Module):
        def __init__(self, d_model, d_ff, dtype):
            zeros = nnx.initializers.zeros
            keys = {"dtype": dtype, "param_dtype": dtype, "rngs": nnx.Rngs(0), "kernel_init": zeros}
            self.first, self.second = nnx.Linear(d_model, d_ff, **keys), nnx.Linear(d_ff, d_model, **keys)

        def __call__(self, x):
            return self.second(jax.nn.silu(self.first(x)))

    def network(x, W1, b1, W2, b2):
        mlp = MLP(*W1.shape, W1.dtype)
        for layer, W, b in ((mlp.first, W1, b1), (mlp.second, W2, b2)):
            layer.kernel[...], layer.bias[...] = W, b
        return mlp(x)

    passes(check(network, activation="silu", backends="jax", dtypes=("float32", "bfloat16"), cases=FEW))


KERAS = """
import warnings
warnings.filterwarnings("ignore")
import keras
from portable_ffn.testing import check

def network(x, W1, b1, W2, b2):
    kind = str(x.dtype).rpartition(".")[2]
    first = keras.layers.Dense(W1.shape[1], activation=exact, dtype=kind, kernel_initializer="zeros")
    second = keras.layers.Dense(W2.shape[1], dtype=kind, kernel_initializer="zeros")
    y = x
    for layer, W, b in ((first, W1, b1), (second, W2, b2)):
        layer.build(y.shape)
        layer.kernel.assign(W)
        layer.bias.assign(b)
        y = layer(y)
    return y.detach() if hasattr(y, "detach") else y

def exact(h):
    return keras.activations.gelu(h, approximate=False)

report = check(network, activation="gelu", backends=keras.backend.backend(), dtypes=DTYPES, cases=CASES)
print(report.to_json())
"""


def of_keras(backend, dtypes):
    """The rows of a stack of Dense layers, in a process of its own, since Keras settles its backend once."""
    code = KERAS.replace("CASES", repr(FEW)).replace("DTYPES", repr(dtypes))
    environment = {**os.environ, "KERAS_BACKEND": backend}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)["rows"]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_dense_layers_of_keras(backend, require):
    require(backend)
    installed("keras")
    rows = of_keras(backend, ("float64", "float32", "bfloat16"))
    assert len(rows) == 3 * len(FEW)
    assert {row["status"] for row in rows if row["dtype"] != "float64"} == {"pass"}, rows
    wide = [row for row in rows if row["dtype"] == "float64"]
    if backend == "jax":  # which has no float64 unless it is told to
        assert {row["status"] for row in wide} == {"gap"}
    else:
        # Keras 3.15 multiplies float64 in float32 on PyTorch: the check found it, and names it. Where this fails
        # Keras does so no longer.
        assert {row["status"] for row in wide} == {"fail"}
        assert all(row["cause"].startswith("float64 ") for row in wide)
        assert any("float64 computed in float32" in row["cause"] for row in wide)


def test_onnxruntime(require):
    """A graph of onnx's own operators, run by onnxruntime on NumPy arrays."""
    installed("onnxruntime")
    installed("onnx")
    import onnxruntime
    from onnx import TensorProto, helper

    kinds = {"float64": TensorProto.DOUBLE, "float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}
    sessions = {}

    def session(dtype):
        names = ("x", "W1", "b1", "W2", "b2")
        nodes = [
            helper.make_node("MatMul", ["x", "W1"], ["p"]),
            helper.make_node("Add", ["p", "b1"], ["g"]),
            helper.make_node("Relu", ["g"], ["h"]),
            helper.make_node("MatMul", ["h", "W2"], ["q"]),
            helper.make_node("Add", ["q", "b2"], ["y"]),
        ]
        inputs = [helper.make_tensor_value_info(name, kinds[dtype], None) for name in names]
        graph = helper.make_graph(nodes, "ffn", inputs, [helper.make_tensor_value_info("y", kinds[dtype], None)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

    def network(x, W1, b1, W2, b2):
        dtype = x.dtype.name
        if dtype not in sessions:
            sessions[dtype] = session(dtype)
        arrays = {"x": x, "W1": W1, "b1": b1, "W2": W2, "b2": b2}
        return sessions[dtype].run(["y"], {name: np.ascontiguousarray(array) for name, array in arrays.items()})[0]

    passes(check(network, backends="numpy", dtypes=tuple(kinds), cases=CASES))
