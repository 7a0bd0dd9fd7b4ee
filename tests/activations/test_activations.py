"""Each activation by name: its values and derivative against the oracle's scalars, its tails, its corners, its ends."""

import math

import numpy as np
import pytest

from portable_ffn import ACTIVATIONS, ClippedGate, feed_forward, oracle
from portable_ffn._arrays.dtype import dtype_name
from portable_ffn.testing import BACKENDS

LIBRARIES = [row for row in BACKENDS.values() if ":" not in row.name and row.missing() is None]
GRID = np.concatenate(
    [
        np.linspace(-12, 12, 481),
        -np.geomspace(1e-8, 1e-2, 20),
        np.geomspace(1e-8, 1e-2, 20),
        [-700.0, -88.0, 88.0, 700.0],
    ]
)


def test_a_name_in_one_table_is_in_the_other():
    assert set(ACTIVATIONS) == set(oracle.ACTIVATIONS) == set(oracle.DERIVATIVES)


def exact(formula, grid):
    return np.asarray([formula(float(h)) for h in grid])


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
@pytest.mark.parametrize("backend", LIBRARIES, ids=lambda row: row.name)
def test_values_in_float64(backend, name):
    if backend.name == "ndonnx" and name not in ("relu", "gelu", "mish", "sqrt_softplus"):
        pytest.skip("ndonnx takes a second a graph: four names stand for all")
    expected = exact(oracle.ACTIVATIONS[name], GRID)
    got = backend.take(ACTIVATIONS[name](backend.put(GRID)))
    # A few units in the last place of the value or, where a sum cancels, of the argument near zero.
    assert np.all(np.abs(got - expected) <= 1e-15 * (8 * np.abs(expected) + 4 * np.minimum(np.abs(GRID), 1)))


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_derivatives_in_float64(name):
    expected = exact(oracle.DERIVATIVES[name], GRID)
    got = ACTIVATIONS[name].derivative(GRID)
    away = np.abs(GRID[:, None] - [-3.0, 0.0, 3.0, 6.0, 10.0]).min(axis=1) > 0  # a corner has two derivatives
    assert np.all(np.abs(got - expected)[away] <= 1e-15 * (16 + 16 * np.abs(expected))[away])


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("backend", LIBRARIES, ids=lambda row: row.name)
def test_values_in_lower_precision(backend, name, dtype):
    if dtype not in backend.dtypes or (backend.name == "ndonnx" and name not in ("relu", "gelu")):
        pytest.skip(f"{backend.name} has no {dtype}, or takes a second a graph")
    x = backend.put(np.clip(GRID, -80, 80), dtype)
    held = backend.take(x)
    got = ACTIVATIONS[name](x)
    assert dtype_name(got.dtype) == dtype
    expected = exact(oracle.ACTIVATIONS[name], held)
    unit, smallest = oracle.unit_roundoff(dtype), {"float16": 6e-8}.get(dtype, 1.2e-38)
    error = np.abs(backend.take(got) - expected)
    # A rounding of the argument, as it tells; the argument of laplace is h less a constant that is rounded too.
    argument = (np.abs(held) + (name == "laplace")) * np.abs(exact(oracle.DERIVATIVES[name], held))
    bound = unit * (16 * np.abs(expected) + 4 * np.minimum(np.abs(held), 1) + 4 * argument) + smallest
    finite = np.abs(expected) < {"float16": 6e4}.get(dtype, 1e38)
    assert np.all((error <= bound)[finite])


@pytest.mark.parametrize(("dtype", "last", "relative"), [("float32", -13.0, 1e-5), ("float64", -37.0, 1e-12)])
def test_the_negative_tail_of_the_exact_gelu(dtype, last, relative):
    """Right relative to its own size, where 0.5 x (1 + erf) has nothing left (Hendrycks and Gimpel 2016)."""
    h = np.linspace(last, -1, 400, dtype=dtype)
    expected = np.asarray([0.5 * float(t) * math.erfc(-float(t) / math.sqrt(2)) for t in h])
    for row in LIBRARIES:
        # F.gelu loses the tail; the generic formula, which ACTIVATIONS hold, does not.
        got = row.take(ACTIVATIONS["gelu"](row.put(h, dtype)))
        assert np.max(np.abs(got / expected - 1)) < relative, row.name
    by_erf = h * np.asarray(
        [0.5 * (1 + np.dtype(dtype).type(math.erf(float(t) / math.sqrt(2)))) for t in h], dtype=dtype
    )
    assert np.max(np.abs(by_erf / expected - 1)) > 0.5


def test_three_gelus_are_three_functions():
    h = np.linspace(-4, 4, 801)
    wide = np.linspace(-10, 10, 4001)
    gelu, tanh, quick, silu = (ACTIVATIONS[name] for name in ("gelu", "gelu_tanh", "quick_gelu", "silu"))
    assert np.max(np.abs(gelu(h) - tanh(h))) == pytest.approx(4.73e-4, rel=2e-3)
    assert np.max(np.abs(gelu(h) - quick(h))) == pytest.approx(2.03e-2, rel=3e-3)
    assert np.max(np.abs(gelu(wide) - silu(wide))) == pytest.approx(0.193, rel=5e-3)
    at = np.asarray([-1.0, -5.0])
    assert gelu(at) == pytest.approx([-0.15865525393145705, -1.4332578515e-6], rel=1e-9)
    assert tanh(at) == pytest.approx([-0.15880800939172324, -2.29179e-7], rel=1e-5)


ENDS = {  # at -inf and +inf
    **dict.fromkeys(("silu", "gelu", "gelu_tanh", "quick_gelu", "mish", "hard_swish"), (math.nan, math.inf)),
    **dict.fromkeys(("relu", "relu2", "softplus", "sqrt_softplus"), (0.0, math.inf)),
    **dict.fromkeys(("sigmoid", "hard_sigmoid", "laplace"), (0.0, 1.0)),
    **dict.fromkeys(("identity", "leaky_relu"), (-math.inf, math.inf)),
    "relu6": (0.0, 6.0),
    "tanh": (-1.0, 1.0),
    "elu": (-1.0, math.inf),
    "selu": (-1.0507009873554805 * 1.6732632423543772, math.inf),
    "gelu_10": (math.nan, 10.0),
    "softsign": (math.nan, math.nan),  # inf / inf, as in every library
}


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
@pytest.mark.parametrize("backend", [row for row in LIBRARIES if row.name != "ndonnx"], ids=lambda row: row.name)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # Dask computes when it is asked, outside our call
def test_infinities_and_nan(backend, name, dtype):
    if dtype not in backend.dtypes:
        pytest.skip(f"{backend.name} has no {dtype}")
    got = backend.take(ACTIVATIONS[name](backend.put([-math.inf, math.inf, math.nan], dtype)))
    assert got[:2] == pytest.approx(ENDS[name], nan_ok=True, rel=2 * oracle.unit_roundoff(dtype))
    assert math.isnan(got[2])


def test_relu_has_derivative_zero_at_zero():
    for name in ("relu", "relu2", "relu6"):
        assert ACTIVATIONS[name].derivative(np.zeros(1))[0] == 0.0


def test_shape_and_library_are_those_of_the_argument():
    for shape in ((), (0,), (2, 0, 3), (2, 1, 3)):
        assert ACTIVATIONS["gelu"](np.zeros(shape)).shape == shape
    assert ACTIVATIONS["silu"](np.asarray([1, 2])).dtype == np.float64
    with pytest.raises(TypeError, match="x must be an array"):
        ACTIVATIONS["silu"]([1.0])
    with pytest.raises(TypeError, match="x must be real floating"):
        ACTIVATIONS["silu"](np.ones(1, dtype=complex))


GATES = [
    ClippedGate(limit, alpha, offset, clip)
    for limit in (None, 0.0, 1.5, 7.0)
    for alpha, offset in ((1.0, 0.0), (1.702, 1.0))
    for clip in ("before", "after")
]


@pytest.mark.parametrize("gate", GATES, ids=str)
def test_the_gradient_of_a_clipped_gate(gate):
    rng = np.random.default_rng(0)
    g, u, d = 4 * rng.standard_normal((3, 400))
    dg, du = gate.gate_vjp(g, u, d)
    step = 1e-6
    near = gate.gate(g + step, u) - gate.gate(g - step, u), gate.gate(g, u + step) - gate.gate(g, u - step)
    limit = math.inf if gate.limit is None else gate.limit
    activated = g if gate.clip == "before" else g / (1 + np.exp(-gate.alpha * g))
    away = (np.abs(activated - limit) > 1e-4) & (np.abs(np.abs(u) - limit) > 1e-4)  # from the edges of the clamps
    assert np.allclose((dg / d)[away], (near[0] / (2 * step))[away], rtol=1e-6, atol=1e-7)
    assert np.allclose((du / d)[away], (near[1] / (2 * step))[away], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("gate", GATES, ids=str)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_clipped_gate_keeps_the_dtype(gate, dtype):
    g, u = np.random.default_rng(0).standard_normal((2, 50)).astype(dtype)
    got = gate.gate(g, u)
    assert got.dtype == dtype
    exact_gate = gate.gate(g.astype("float64"), u.astype("float64"))
    assert np.allclose(got, exact_gate, rtol=8 * np.finfo(dtype).eps, atol=8 * np.finfo(dtype).eps)


def test_hard_swish_does_not_overflow_before_its_value_does():
    for row in BACKENDS.values():
        if ":" not in row.name and row.missing() is None and row.name != "ndonnx":
            one = row.put([[1.0]], "float32")
            y = feed_forward(row.put([[1e38], [-1e38]], "float32"), one, None, one, None, activation="hard_swish")
            assert np.allclose(row.take(y)[:, 0], [1e38, 0.0], rtol=1e-6), row.name
