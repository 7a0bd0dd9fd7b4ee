"""Activations and gates with numbers of their own: values by their formulas, derivatives by differences."""

import copy
import math
import pickle

import numpy as np
import pytest

from portable_ffn import feed_forward
from portable_ffn._activations.gates import SoftcapGate, TopKGate
from portable_ffn._activations.learned import XIELU, PReLU, TanhGELU

X = np.linspace(-6, 6, 241)
ELEMENTWISE = [
    PReLU(0.3),
    PReLU(np.linspace(-1, 1, 241)),
    XIELU(0.4, -0.2),
    XIELU(0.1, 0.2, 0.3, -1e-3),
    TanhGELU(0.79788456),
]
GATES = [SoftcapGate(4.0, 25.0), TopKGate(0.5), TopKGate(0.95, "silu")]


def softplus(z: float) -> float:
    return math.log1p(math.exp(z))


def asarray(library: str, array: np.ndarray, dtype: str = "float64"):
    """The array in a library."""
    if library == "torch":
        torch = pytest.importorskip("torch", reason="torch is not installed")
        return torch.from_numpy(array).to(getattr(torch, dtype))
    if library == "jax":
        return pytest.importorskip("jax.numpy", reason="jax is not installed").asarray(array, dtype=dtype)
    return array.astype(dtype)


def test_prelu():
    np.testing.assert_array_equal(PReLU(0.25)(X), np.where(X > 0, X, 0.25 * X))
    slopes = np.linspace(-1, 1, 241)
    np.testing.assert_allclose(
        PReLU(slopes)(np.stack([X, -X])), [np.where(X > 0, X, slopes * X), np.where(X < 0, -X, slopes * -X)]
    )
    assert PReLU([0.5]) == PReLU(0.5)
    with pytest.raises(ValueError, match="one number a channel"):
        PReLU([0.1, 0.2])(X)
    with pytest.raises(ValueError, match="finite"):
        PReLU(math.nan)


def test_xielu():
    act = XIELU(0.4, -0.2, 0.5, -1e-6)
    right, left = softplus(0.4), 0.5 + softplus(-0.2)
    expected = np.where(X > 0, right * X**2 + 0.5 * X, (np.expm1(np.minimum(X, -1e-6)) - X) * left + 0.5 * X)
    np.testing.assert_allclose(act(X), expected, rtol=1e-14, atol=1e-15)


def test_tanh_gelu_of_another_constant():
    """BLOOM's: nine digits from the usual one."""
    expected = 0.5 * X * (1 + np.tanh(0.79788456 * X * (1 + 0.044715 * X * X)))
    np.testing.assert_allclose(TanhGELU(0.79788456)(X), expected, rtol=1e-12, atol=1e-15)
    assert 0 < np.abs(TanhGELU(0.79788456)(X) - TanhGELU()(X)).max() < 1e-8


@pytest.mark.parametrize("act", ELEMENTWISE, ids=lambda act: type(act).__name__)
def test_the_derivative_is_the_slope(act):
    step = 1e-6
    away = np.abs(X) > 1e-2
    slope = (act(X + step) - act(X - step)) / (2 * step)
    np.testing.assert_allclose(act.derivative(X)[away], slope[away], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("act", ELEMENTWISE, ids=lambda act: type(act).__name__)
@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_in_every_library_and_dtype(library, dtype, act):
    """The library and the dtype stay; NaN and infinities pass without a warning."""
    y = act(asarray(library, X, dtype))
    assert str(y.dtype).removeprefix("torch.") == dtype
    tolerance = {"float16": 3e-3, "float32": 1e-5, "float64": 1e-13}[dtype]
    np.testing.assert_allclose(
        np.asarray(y, dtype=np.float64), act(X.astype(dtype).astype(np.float64)), rtol=tolerance, atol=tolerance
    )
    if not isinstance(act, PReLU):
        odd = act(asarray(library, np.array([np.nan, np.inf, -1e4, 1e4]), "float32"))
        assert np.isnan(np.asarray(odd)[0])
        assert np.asarray(odd)[1] == np.inf


def test_softcap_gate():
    g, u = X, X[::-1] * 9
    expected = 4 * np.tanh(g / 4) / (1 + np.exp(-g)) * 25 * np.tanh(u / 25)
    np.testing.assert_allclose(SoftcapGate(4, 25).gate(g, u), expected, rtol=1e-13)
    with pytest.raises(ValueError, match="above zero"):
        SoftcapGate(0, 1)


def test_top_k_gate():
    """About the share that it says is put to zero; the quantile of 0.95 is 1.6449."""
    g, u = np.random.default_rng(0).normal(size=(2, 7, 4000))
    gate = TopKGate(0.95, "relu")
    assert gate.quantile == pytest.approx(1.6448536269514722, rel=1e-14)
    threshold = g.mean(-1, keepdims=True) + gate.quantile * g.std(-1, keepdims=True)
    np.testing.assert_allclose(gate.gate(g, u), np.maximum(g - threshold, 0) * u, rtol=1e-9, atol=1e-12)
    assert (gate.gate(g, u) == 0).mean() == pytest.approx(0.95, abs=0.01)
    with pytest.raises(ValueError, match="between 0 and 1"):
        TopKGate(1.0)
    with pytest.raises(ValueError, match="activation must be one of"):
        TopKGate(0.5, "no_such")


@pytest.mark.parametrize("gate", GATES, ids=str)
def test_a_gates_gradient(gate):
    rng = np.random.default_rng(1)
    g, u, d = rng.normal(size=(3, 2, 9))
    dg, du = gate.gate_vjp(g, u, d)
    step = 1e-6
    for mine, which in ((dg, 0), (du, 1)):
        for index in np.ndindex(g.shape):
            moved = [g.copy(), u.copy()]
            moved[which][index] += step
            above = (d * gate.gate(*moved)).sum()
            moved[which][index] -= 2 * step
            slope = (above - (d * gate.gate(*moved)).sum()) / (2 * step)
            assert mine[index] == pytest.approx(slope, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("gate", GATES, ids=str)
@pytest.mark.parametrize("library", ["torch", "jax"])
def test_a_gate_in_the_network(gate, library):
    """The same result in every library, through the whole network."""
    rng = np.random.default_rng(2)
    x, W1, V, W2 = rng.normal(size=(3, 4)), rng.normal(size=(4, 6)), rng.normal(size=(4, 6)), rng.normal(size=(6, 4))
    reference = gate.gate(x @ W1, x @ V) @ W2
    arrays = [asarray(library, a) for a in (x, W1, W2, V)]
    y = feed_forward(arrays[0], arrays[1], None, arrays[2], None, arrays[3], activation=gate)
    np.testing.assert_allclose(np.asarray(y), reference, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("thing", ELEMENTWISE + GATES, ids=lambda thing: type(thing).__name__)
def test_they_hash_copy_and_pickle(thing):
    for twin in (copy.deepcopy(thing), pickle.loads(pickle.dumps(thing))):
        assert twin == thing
        assert hash(twin) == hash(thing)
