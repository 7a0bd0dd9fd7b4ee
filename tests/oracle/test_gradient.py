"""The oracle's gradient against mpmath and PyTorch's autograd, and its bound against planted faults."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import portable_ffn.oracle as oracle
from tests.oracle.cases import U, excess, gate, network

PARTS = ("x", "W1", "b1", "W2", "b2", "V", "c")


def from_above(given, seed=0):
    """Some dy of N(0, 1) for the network's output, in the dtype of its x."""
    return np.random.default_rng(seed).normal(size=(*given[0].shape[:-1], given[3].shape[1])).astype(given[0].dtype)


def each_part(got, answer, bound):
    """The excess of each gradient, by its argument's name."""
    assert [part is None for part in got] == [part is None for part in answer] == [part is None for part in bound]
    return {name: excess(g, a, b) for name, g, a, b in zip(PARTS, got, answer, bound, strict=True) if a is not None}


@pytest.mark.parametrize("name", ["relu", "gelu", "gelu_tanh", "silu", "mish", "tanh"])
def test_gradients_are_differences_of_the_answer(name):
    given = network(1, 3, 5, gated=True)
    dy = from_above(given)
    answer, _ = oracle.vjp(*given, dy, activation=name)
    step = 1e-6
    for k, part in enumerate(given):
        for index in np.ndindex(part.shape):
            ends = []
            for sign in (1, -1):
                moved = [v.copy() for v in given]
                moved[k][index] += sign * step
                ends.append(np.sum(oracle.feed_forward(*moved, activation=name)[0] * dy))
            assert answer[k][index] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-7, abs=1e-8)


def torch_gradients(given, dy, dtype, act, combine=None):
    """The seven gradients by PyTorch's autograd."""
    import torch

    leaves = [
        None if v is None else torch.from_numpy(v.astype(np.float64)).to(getattr(torch, dtype)).requires_grad_(True)
        for v in given
    ]
    x, W1, b1, W2, b2, V, c = leaves
    g = x @ W1 if b1 is None else x @ W1 + b1
    u = None if V is None else x @ V if c is None else x @ V + c
    h = combine(g, u) if combine else act(g) if u is None else act(g) * u
    y = h @ W2 if b2 is None else h @ W2 + b2
    y.backward(torch.from_numpy(dy.astype(np.float64)).to(y.dtype))
    return [None if v is None else v.grad.double().numpy() for v in leaves]


@pytest.mark.parametrize("dtype", U)
def test_pytorch_is_within_the_bound(dtype, require):
    require("torch")
    import torch

    F = torch.nn.functional
    table = {
        "relu": F.relu, "relu2": lambda x: F.relu(x).square(), "relu6": F.relu6, "gelu": F.gelu, "silu": F.silu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
        "sigmoid": torch.sigmoid, "tanh": torch.tanh, "mish": F.mish, "hard_swish": F.hardswish, "elu": F.elu,
        "selu": F.selu, "leaky_relu": F.leaky_relu, "softsign": F.softsign, "identity": lambda x: x,
        "laplace": lambda x: 0.5 * (1 + torch.erf((x - 0.707107) / (0.282095 * math.sqrt(2)))),
    }  # fmt: skip
    seen = []
    for seed, (name, act) in enumerate(table.items()):
        for turn, (tokens, d_model, d_ff) in enumerate([(1, 1, 1), (3, 8, 32), (40, 16, 24), (2, 100, 150)]):
            given = network(
                100 * seed + turn, d_model, d_ff, tokens=tokens, gated=(seed + turn) % 2 == 0,
                bias=(seed + turn) % 3 > 0, scale=(1.0, 1e-3, 8.0)[(seed + turn) % 3], dtype=dtype,
            )  # fmt: skip
            dy = from_above(given)
            parts = each_part(torch_gradients(given, dy, dtype, act), *oracle.vjp(*given, dy, activation=name))
            assert max(parts.values()) < 1, (name, parts)
            seen += parts.values()
    assert np.median(seen) < 0.2


@pytest.mark.parametrize("clip", ["before", "after"])
def test_a_clipped_gate_against_pytorch(clip, require):
    require("torch")
    import torch

    def combine(g, u):
        kept = torch.minimum(g, torch.tensor(0.3, dtype=g.dtype)) if clip == "before" else g
        a = kept * torch.sigmoid(1.702 * kept)
        a = a if clip == "before" else torch.minimum(a, torch.tensor(0.3, dtype=g.dtype))
        return a * (u.clamp(-0.3, 0.3) + 1.0)

    for dtype in ("float64", "float32"):
        given = network(5, 8, 32, gated=True, dtype=dtype)
        dy = from_above(given)
        # the limit is 0.3 in the dtype itself, as a Python float would be beside an array of it
        activation = gate(float(np.dtype(dtype).type(0.3)), 1.702, 1.0, clip)
        parts = each_part(
            torch_gradients(given, dy, dtype, None, combine), *oracle.vjp(*given, dy, activation=activation)
        )
        assert max(parts.values()) < 1, parts


def test_gates_and_callables_that_bring_their_derivative():
    class Bilinear:
        def gate(self, g, u):
            return g * u

        def gate_vjp(self, g, u, d):
            return d * u, d * g

    def square(x):
        return x * x

    square.derivative = lambda x: 2 * x

    given = network(6, 8, 32, gated=True)
    dy = from_above(given)
    named, tighter = oracle.vjp(*given, dy, activation="identity")
    got, bound = oracle.vjp(*given, dy, activation=Bilinear())
    for g, n, b, t in zip(got, named, bound, tighter, strict=True):
        assert np.all(np.abs(g - n) <= t)
        assert np.median(b / t) < 10
    plain = (*given[:5], None, None)
    rectified = tuple(np.abs(v) if v is not None else None for v in plain)  # where relu2 is the square
    named, _ = oracle.vjp(*rectified, np.abs(dy), activation="relu2")
    got, bound = oracle.vjp(*rectified, np.abs(dy), activation=square)
    assert max(each_part(got, named, bound).values()) < 1
    with pytest.raises(TypeError, match="bring an attribute `derivative`"):
        oracle.vjp(*plain, dy, activation=lambda x: x)
    with pytest.raises(TypeError, match=r"bring a method gate_vjp\(g, u, d\)"):
        oracle.vjp(*given, dy, activation=SimpleNamespace(gate=lambda g, u: g + u))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_planted_faults_show(dtype):
    given = network(7, 8, 32, tokens=6, gated=True, dtype=dtype)
    dy = from_above(given)
    answer = oracle.vjp(*given, dy, activation="gelu")

    def wrong(*arguments, activation="gelu"):
        return each_part(oracle.vjp(*arguments, activation=activation)[0], *answer)

    assert set(wrong(*given, dy).values()) == {0.0}
    other = wrong(*given, dy, activation="gelu_tanh")
    assert all(other[name] > 10 for name in ("x", "W1", "b1", "W2", "V", "c"))
    assert wrong(*given, dy[::-1])["W2"] > 1000
    assert wrong(*given, dy + dy.dtype.type(1e-3))["b2"] > 100
    doubled = [2 * part for part in answer[0]]
    assert min(each_part(doubled, *answer).values()) > 1000
    dropped = [np.zeros_like(part) for part in answer[0]]
    assert min(each_part(dropped, *answer).values()) > 1000


def test_at_a_kink_either_slope_is_within_the_bound():
    W1, W2 = np.array([[1.0], [-1.0]]), np.array([[1.0]])
    got, bound = oracle.vjp(np.array([[1.0 + 2.0**-52, 1.0], [2.0, 1.0]]), W1, None, W2, None, dy=np.ones((2, 1)))
    assert got[0].tolist() == [[1.0, -1.0], [1.0, -1.0]]
    assert bound[0][0, 0] > 1.0  # h is 2e-16 of terms of 1
    assert bound[0][1, 0] < 1e-14
    zero = np.zeros((1, 2))
    got, bound = oracle.vjp(zero, W1, None, W2, None, dy=np.ones((1, 1)))
    assert got[0].tolist() == [[0.0, 0.0]]
    assert np.all(bound[0] < 1e-300)  # h is exactly 0, and so is the slope


def test_none_stays_none_and_shapes_are_those_of_the_arguments():
    x, W1, b1, W2, b2, *_ = network(8, 4, 8)
    for shape in ((4,), (3, 4), (2, 3, 4), (0, 4), (2, 0, 4)):
        got, bound = oracle.vjp(np.ones(shape), W1, None, W2, b2, dy=np.ones(shape))
        assert [None if part is None else part.shape for part in got] == [shape, (4, 8), None, (8, 4), (4,), None, None]
        assert [None if part is None else part.shape for part in bound] == [
            shape,
            (4, 8),
            None,
            (8, 4),
            (4,),
            None,
            None,
        ]
    with pytest.raises(TypeError, match="dy must be an array, got None"):
        oracle.vjp(x, W1, b1, W2, b2)
    with pytest.raises(ValueError, match=r"dy must have shape \(4, 4\), got \(4, 5\)"):
        oracle.vjp(x, W1, b1, W2, b2, dy=np.ones((4, 5)))


def test_a_gradient_is_rounded_to_its_own_argument():
    given = network(9, 8, 32, dtype="float32")
    dy = from_above(given)
    mixed = (given[0], given[1].astype(np.float16), *given[2:])
    got, bound = oracle.vjp(*mixed, dy)
    widened = (given[0], mixed[1].astype(np.float32), *given[2:])
    same, tighter = oracle.vjp(*widened, dy)
    assert np.array_equal(got[1], same[1])
    assert np.all(bound[1] > tighter[1])
    assert excess(got[1].astype(np.float16), got[1], bound[1]) < 1
    assert excess(got[1].astype(np.float16), got[1], tighter[1]) > 1
    assert np.array_equal(bound[3], tighter[3])


@pytest.mark.parametrize("name", sorted(oracle.ACTIVATIONS))
def test_nothing_is_nan_for_large_inputs(name):
    x = np.array([[-1e4], [-89.0], [0.0], [89.0], [1e4]])
    with np.errstate(all="raise"):
        for dtype in U:
            got, bound = oracle.vjp(
                x, [[1.0]], [0.0], [[1.0]], None, [[1.0]], dy=np.ones((5, 1)), activation=name, dtype=dtype
            )
            for part, limit in zip(got, bound, strict=True):
                if part is not None:
                    assert np.isfinite(part).all()
                    assert not np.isnan(limit).any()
