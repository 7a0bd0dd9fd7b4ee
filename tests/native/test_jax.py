"""JAX's row: blocks of rows on one CPU and nowhere else, and derivatives to any order."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest

from portable_ffn import ACTIVATIONS, ClippedGate, feed_forward, oracle
from portable_ffn._native.table import without_native
from tests.conftest import demand
from tests.native import networks


@pytest.fixture
def jax():
    demand("jax")
    return pytest.importorskip("jax")


@pytest.fixture
def small_blocks(jax, monkeypatch):
    """Blocks of 256 rows from few rows on; what was compiled before is forgotten, there and back."""
    from portable_ffn._native.jax import network as _native_jax

    monkeypatch.setattr(_native_jax, "LITTLE", 0)
    monkeypatch.setattr(_native_jax, "BLOCK", {"hidden_bytes": 2**10, "most": 256})
    _native_jax._compiled.clear()
    yield _native_jax
    _native_jax._compiled.clear()


def network(rows, gated, dtype="float64"):
    rng = np.random.default_rng(5)
    shapes = [rows, (4, 12), (12,), (12, 3), (3,), *([(4, 12), (12,)] if gated else [])]
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("rows", [(256, 4), (257, 4), (5, 103, 4), (2, 256, 4), (1024, 4)], ids=str)
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "mish", ClippedGate(2.0, 1.702, 1.0)], ids=str)
def test_values_in_blocks(jax, small_blocks, activation, rows):
    arrays = network(rows, gated=not isinstance(activation, str) or activation == "silu")
    y = feed_forward(*map(jax.numpy.asarray, arrays), activation=activation)
    if math.prod(rows[:-1]) > 256:
        assert (activation, True) in small_blocks._compiled
    expected, bound = oracle.feed_forward(*arrays, activation=activation)
    assert y.shape == expected.shape
    assert (np.abs(np.asarray(y) - expected) <= bound).all()


def test_blocks_are_as_the_table_says(jax, small_blocks):
    arrays = [jax.numpy.asarray(array) for array in network((1000, 4), gated=False)]
    assert small_blocks._block(arrays[0], arrays[1], None) == 250
    assert small_blocks._splits((*arrays, None, None))
    feed_forward(*arrays)
    text = small_blocks._compiled["relu", True].lower(*arrays, None, None).as_text()
    assert "tensor<250x12xf64>" in text
    assert "tensor<1000x12xf64>" not in text


def test_nothing_is_split_under_a_transform(jax, small_blocks):
    arrays = [jax.numpy.asarray(array) for array in network((1000, 4), gated=False)]
    for transform in (jax.jit, lambda f: jax.jit(jax.grad(lambda *given: f(*given).sum()))):
        assert "while" not in transform(lambda *given: feed_forward(*given, activation="gelu")).lower(*arrays).as_text()
    assert not small_blocks._compiled


SHARDED = """
import numpy as np, jax, jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from portable_ffn import feed_forward
from portable_ffn._native.jax import network as _native_jax
_native_jax.LITTLE, _native_jax.BLOCK = 0, {"hidden_bytes": 2**10, "most": 256}
mesh = Mesh(np.array(jax.devices()), ("rows",))
rng = np.random.default_rng(0)
arrays = [rng.normal(size=shape).astype("float32") for shape in [(1024, 4), (4, 12), (12,), (12, 3), (3,)]]
x = jax.device_put(arrays[0], NamedSharding(mesh, P("rows")))
weights = [jax.device_put(w, NamedSharding(mesh, P())) for w in arrays[1:]]
y = feed_forward(x, *weights)
assert y.sharding.is_equivalent_to(x.sharding, 2), y.sharding
assert ("relu", True) not in _native_jax._compiled
alone = feed_forward(*map(jnp.asarray, arrays))
assert ("relu", True) in _native_jax._compiled
np.testing.assert_allclose(y, alone, rtol=1e-5, atol=1e-5)
"""


def test_sharded_rows_stay_where_they_are(jax):
    settings = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", SHARDED], check=True, env=settings)


POINTS = (-30.0, -13.0, -9.5, -5.5, -2.0, -0.5, -1e-3, -0.0, 0.0, 1e-3, 0.5, 2.0, 5.5, 13.0, 30.0)


def value(jax, name):
    """The activation alone, through a network of one number."""
    one = jax.numpy.ones((1, 1), "float64")
    return lambda h: feed_forward(h[None, None], one, None, one, None, activation=name)[0, 0]


@pytest.mark.parametrize("name", ["relu", "gelu", "gelu_tanh", "quick_gelu", "silu"])
def test_first_derivatives(jax, name):
    slope = jax.grad(value(jax, name))
    points = np.array(POINTS)
    got = [float(slope(jax.numpy.float64(h))) for h in points]
    np.testing.assert_allclose(got, ACTIVATIONS[name].derivative(points), rtol=1e-12, atol=1e-15)


def plain(jax, name):
    """The formula as it stands in the papers."""
    jnp = jax.numpy
    return {
        "gelu": lambda h: 0.5 * h * (1 + jax.lax.erf(h / math.sqrt(2))),
        "gelu_tanh": lambda h: 0.5 * h * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3))),
        "quick_gelu": lambda h: h / (1 + jnp.exp(-1.702 * h)),
        "silu": lambda h: h / (1 + jnp.exp(-h)),
    }[name]


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "quick_gelu", "silu"])
@pytest.mark.parametrize("order", ["reverse of reverse", "forward of reverse", "third"])
def test_higher_derivatives(jax, order, name):
    build = {
        "reverse of reverse": lambda f: jax.grad(jax.grad(f)),
        "forward of reverse": lambda f: jax.jacfwd(jax.grad(f)),
        "third": lambda f: jax.grad(jax.grad(jax.grad(f))),
    }[order]
    got, expected = build(value(jax, name)), build(plain(jax, name))
    for h in POINTS:
        point = jax.numpy.float64(h)
        np.testing.assert_allclose(float(got(point)), float(expected(point)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["relu", "gelu", "gelu_tanh", "quick_gelu", "silu"])
def test_derivatives_at_the_ends_are_the_limits(jax, name):
    slope = jax.grad(value(jax, name))
    for h, limit in ((-1e30, 0.0), (1e30, 1.0)):
        assert float(slope(jax.numpy.float64(h))) == limit
    with without_native():
        generic = jax.grad(value(jax, name))
        for h in (math.inf, -math.inf, math.nan):
            np.testing.assert_equal(float(slope(jax.numpy.float64(h))), float(generic(jax.numpy.float64(h))))


def test_no_columns_and_a_mesh_of_one_device_go_in_one_piece(jax, small_blocks):
    jnp = jax.numpy
    assert feed_forward(jnp.ones((700, 2)), jnp.ones((2, 3)), None, jnp.ones((3, 0)), None).shape == (700, 0)
    mesh = jax.make_mesh((1,), ("rows",), axis_types=(jax.sharding.AxisType.Explicit,))

    def put(array, *axes):
        return jax.device_put(array, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes)))

    y = feed_forward(put(jnp.ones((700, 4)), "rows"), put(jnp.ones((4, 8))), None, put(jnp.ones((8, 4))), None)
    np.testing.assert_array_equal(np.asarray(y), np.full((700, 4), 32.0))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu"])
def test_half_precision_under_a_gradient(jax, name, dtype):
    jnp = jax.numpy
    one = jnp.ones((1, 1), dtype)
    h = jnp.linspace(-6, 6, 101).astype(dtype)[:, None]

    def total(h):
        return feed_forward(h, one, None, one, None, activation=name).astype("float32").sum()

    got = jax.grad(total)(h)
    assert got.dtype == h.dtype
    with without_native():
        expected = jax.grad(total)(h)
    np.testing.assert_allclose(got.astype("float32"), expected.astype("float32"), rtol=2**-7, atol=2**-9)


def test_jax_compiles_names_once_and_functions_never():
    jnp = pytest.importorskip("jax.numpy")
    from portable_ffn._native.jax.network import _compiled

    arrays = [jnp.asarray(a) for a in networks.network("float32", rows=2)]
    _compiled.clear()
    for _ in range(3):
        feed_forward(*arrays, activation="gelu")
        feed_forward(*arrays, activation=ClippedGate(7.0))
        feed_forward(*arrays, activation=lambda h: h)
    assert set(_compiled) == {("gelu", False), (ClippedGate(7.0), False)}
