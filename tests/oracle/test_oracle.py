"""The oracle against the digits of mpmath, name by name and as a network; its gates, dtypes and words."""

import ast
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from safetensors.numpy import load_file

import portable_ffn.oracle as oracle
from tests.oracle.cases import U, gate, network, numpy_dtype

mp = mpmath.MPContext()
mp.dps = 400  # 50 digits of 1 + tanh(z) and 1 + erf(z) where they are as small as a float64 can be
NAMES = sorted(oracle.ACTIVATIONS)


def sigma(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def phi(x: Any) -> Any:
    return mp.ncdf(x)


def clip(x: Any, low: Any, high: Any) -> Any:
    return min(max(x, mp.mpf(low)), mp.mpf(high))


def gelu_tanh(x: Any) -> Any:
    return x * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3))) / 2


# The defining equations, as the papers write them; decimal constants are the float64 numbers nearest to them, since
# that is what every library multiplies with.
DEFINITIONS: dict[str, Callable[[Any], Any]] = {
    "relu": lambda x: max(mp.mpf(0), x),
    "relu2": lambda x: max(mp.mpf(0), x) ** 2,
    "relu6": lambda x: clip(x, 0, 6),
    "gelu": lambda x: x * phi(x),
    "gelu_tanh": gelu_tanh,
    "gelu_10": lambda x: clip(x * phi(x), -10, 10),
    "quick_gelu": lambda x: x * sigma(mp.mpf("1.702") * x),
    "silu": lambda x: x * sigma(x),
    "sigmoid": sigma,
    "tanh": mp.tanh,
    "identity": lambda x: x,
    "hard_sigmoid": lambda x: clip(x + 3, 0, 6) / 6,
    "hard_swish": lambda x: x * clip(x + 3, 0, 6) / 6,
    "mish": lambda x: x * mp.tanh(mp.log(1 + mp.exp(x))),
    "leaky_relu": lambda x: x if x > 0 else x * mp.mpf("0.01"),
    "elu": lambda x: x if x > 0 else mp.exp(x) - 1,
    "selu": lambda x: (
        mp.mpf("1.0507009873554804934") * (x if x > 0 else mp.mpf("1.67326324235437728") * (mp.exp(x) - 1))
    ),
    "softplus": lambda x: mp.log(1 + mp.exp(x)),
    "sqrt_softplus": lambda x: mp.sqrt(mp.log(1 + mp.exp(x))),
    "laplace": lambda x: (1 + mp.erf((x - mp.mpf("0.707107")) / (mp.mpf("0.282095") * mp.sqrt(2)))) / 2,
    "softsign": lambda x: x / (1 + abs(x)),
}
KINKS = {
    "relu": (0,),
    "relu2": (0,),
    "relu6": (0, 6),
    "gelu_10": (10,),
    "leaky_relu": (0,),
    "elu": (0,),
    "selu": (0,),
} | {
    "hard_sigmoid": (-3, 3),
    "hard_swish": (-3, 3),
    "softsign": (0,),
}
GRID = [
    *np.linspace(-4, 4, 41),
    *(s * v for s in (-1, 1) for v in (1e-10, 1e-3, 0.7517, 5, 5.5, 6.25, 9.5, 13, 21, 30)),
]


def test_there_is_a_definition_for_every_name_and_a_formula_for_every_definition():
    assert set(DEFINITIONS) == set(oracle.ACTIVATIONS) == set(oracle.DERIVATIVES)


@pytest.mark.parametrize("name", NAMES)
def test_formulas_have_the_digits_of_mpmath(name):
    for x in GRID:
        true = DEFINITIONS[name](mp.mpf(float(x)))
        allowed = 4 * U["float64"] * (1 + x * x) * abs(true)  # exp(-x**2) magnifies the rounding of its argument
        if name == "laplace":  # (x - mu) / sigma is squared, for x
            allowed *= 2 / 0.282095**2
        assert abs(oracle.ACTIVATIONS[name](float(x)) - true) <= allowed + 5e-324, x


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_have_the_digits_of_mpmath(name):
    for x in GRID:
        if any(abs(x - kink) < 1e-12 for kink in KINKS.get(name, ())):
            continue
        true = mp.diff(DEFINITIONS[name], mp.mpf(float(x)), h=mp.mpf(10) ** -22)
        allowed = 4 * U["float64"] * (1 + x * x) * abs(true) + 2e-17 * mp.exp(-abs(x))
        if abs(x) < 2:  # where the derivative of a GELU passes through zero
            allowed += 4 * U["float64"]
        if name == "laplace":
            allowed *= 1 / 0.282095**2
        assert abs(oracle.DERIVATIVES[name](float(x)) - true) <= allowed, x


@pytest.mark.parametrize(
    ("name", "x", "slope"),
    [("relu", 0.0, 0.0), ("relu2", 0.0, 0.0), ("relu6", 0.0, 0.0), ("relu6", 6.0, 0.0), ("leaky_relu", 0.0, 0.01)],
)
def test_slope_at_a_kink(name, x, slope):
    assert oracle.DERIVATIVES[name](x) == slope


@pytest.mark.parametrize("name", NAMES)
def test_formulas_never_raise_and_pass_nan(name):
    for x in (-1e308, -1e200, -1e4, -710.0, -104.0, -89.0, 89.0, 710.0, 1e4, 1e200, 1e308):
        value, slope = oracle.ACTIVATIONS[name](x), oracle.DERIVATIVES[name](x)
        assert not math.isnan(value)
        assert math.isfinite(slope) or name == "relu2"
        if name != "relu2":
            assert math.isfinite(value)
    assert math.isnan(oracle.ACTIVATIONS[name](math.nan))
    assert math.isnan(oracle.DERIVATIVES[name](math.nan)) or name == "identity"
    for x in (-math.inf, math.inf):
        oracle.ACTIVATIONS[name](x)
        oracle.DERIVATIVES[name](x)


@pytest.mark.parametrize("name", ["silu", "gelu", "gelu_tanh", "quick_gelu", "mish", "hard_swish"])
def test_at_minus_infinity_gates_are_nan_and_at_infinity_infinite(name):
    y, bound = oracle.hidden([[-np.inf], [np.inf]], [[1.0]], activation=name)
    assert np.isnan(y[0, 0])
    assert y[1, 0] == np.inf
    assert np.all(bound == 0.0)  # exact: it is expected as it is


def test_three_gelus_are_three_functions():
    grid = np.linspace(-4, 4, 801)
    exact, tanh, quick = (hidden_at(grid, name) for name in ("gelu", "gelu_tanh", "quick_gelu"))
    assert np.max(np.abs(exact - tanh)) == pytest.approx(4.73e-4, rel=2e-3)
    assert np.max(np.abs(exact - quick)) == pytest.approx(2.03e-2, rel=2e-3)
    wide = np.linspace(-10, 10, 2001)
    assert np.max(np.abs(hidden_at(wide, "gelu") - hidden_at(wide, "silu"))) == pytest.approx(0.193, rel=3e-3)
    assert hidden_at([-1.0, -5.0], "gelu") == pytest.approx([-0.158655254, -1.43325786e-6], rel=1e-8)
    assert hidden_at([-1.0, -5.0], "gelu_tanh") == pytest.approx([-0.158808009, -2.29179620e-7], rel=1e-8)


def test_gelu_tail_is_right_where_one_plus_erf_is_not():
    for x in (-5.5, -6.0, -10.0, -30.0):
        true = DEFINITIONS["gelu"](mp.mpf(x))
        assert abs(hidden_at([x], "gelu")[0] / true - 1) < 2e-13
    cancelled = -0.5 * 6.0 * (1.0 + np.float32(math.erf(-6.0 / math.sqrt(2))))
    assert abs(cancelled / DEFINITIONS["gelu"](mp.mpf(-6)) - 1) > 0.5


def hidden_at(x: Any, activation: Any, **kwargs: Any) -> Any:
    """The activation itself, through a hidden layer of W1 = 1."""
    return oracle.hidden(np.asarray(x)[:, None], [[1.0]], activation=activation, **kwargs)[0][:, 0]


# ---- the network against mpmath


def exact_network(x, W1, b1, W2, b2, V, c, act):
    """One row through the network in mpmath, term by term."""

    def column(W, b, row):
        return [
            mp.fsum(mp.mpf(float(r)) * mp.mpf(float(w)) for r, w in zip(row, W[:, j], strict=True))
            + (0 if b is None else mp.mpf(float(b[j])))
            for j in range(W.shape[1])
        ]

    h = [act(g) for g in column(W1, b1, x)]
    if V is not None:
        h = [a * u for a, u in zip(h, column(V, c, x), strict=True)]
    return [
        mp.fsum(a * mp.mpf(float(w)) for a, w in zip(h, W2[:, j], strict=True))
        + (0 if b2 is None else mp.mpf(float(b2[j])))
        for j in range(W2.shape[1])
    ]


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", ["relu", "gelu", "gelu_tanh", "silu", "mish"])
def test_networks_have_the_digits_of_mpmath(name, bias, gated):
    for seed, scale in ((0, 1.0), (1, 1e-3), (2, 30.0)):
        given = network(seed, 3, 5, gated=gated, bias=bias, scale=scale)
        y, bound = oracle.feed_forward(*given, activation=name)
        for i, row in enumerate(given[0]):
            true = exact_network(row, *given[1:], DEFINITIONS[name])
            for j, value in enumerate(true):
                assert abs(y[i, j] - value) <= bound[i, j] / 2  # the other half is the implementation's
                assert abs(y[i, j] - value) <= 1e-14 * max(abs(v) for v in true)


def test_relu_worked_example():
    pre = np.array([2.1, -0.7, 1.4, -1.2, 0.0, 0.9, -0.3, 1.8])
    h, _ = oracle.hidden(np.zeros((1, 4)), np.zeros((4, 8)), pre)
    assert np.flatnonzero(h[0]).tolist() == [0, 2, 5, 7]


# ---- outside cases


@pytest.fixture
def outside(cases):
    """The grid of one large library's activations, in float64 and float32, and their names."""
    folder = cases / "golden" / "_activations"
    return load_file(folder / "activations.safetensors"), json.loads((folder / "activations.json").read_text())


THEIRS = {
    "gelu": "gelu", "gelu_10": "gelu_10", "gelu_accurate": "gelu_tanh", "gelu_new": "gelu_tanh", "gelu_python": "gelu",
    "gelu_python_tanh": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "hardswish": "hard_swish", "laplace": "laplace",
    "leaky_relu": "leaky_relu", "linear": "identity", "mish": "mish", "quick_gelu": "quick_gelu", "relu": "relu",
    "relu2": "relu2", "relu6": "relu6", "sigmoid": "sigmoid", "silu": "silu", "swish": "silu", "tanh": "tanh",
    "gelu_fast": "gelu_tanh", "sqrtsoftplus": "sqrt_softplus",
}  # fmt: skip
# gelu_fast writes sqrt(2 / pi) with ten digits; PyTorch's softplus is the identity from 20 on.
ROUNDER = {"gelu_fast": 1e-10, "sqrtsoftplus": 1e-10}


def test_every_outside_activation_is_known(outside):
    assert set(outside[1]) - set(THEIRS) == {"prelu", "xielu"}  # learned ones are no formulas


@pytest.mark.parametrize("theirs", sorted(THEIRS))
def test_outside_activations_agree_within_the_bound(outside, theirs):
    grid, _ = outside
    x = grid["x"].astype(np.float64)[:, None]
    for suffix, dtype in (("y64", "float64"), ("y", "float32")):
        y, bound = oracle.hidden(x, [[1.0]], activation=THEIRS[theirs], dtype=dtype)
        allowed = bound[:, 0] + ROUNDER.get(theirs, 0.0) * np.abs(y[:, 0])
        assert np.all(np.abs(grid[f"{theirs}.{suffix}"] - y[:, 0]) <= allowed)


# ---- gates


def gated_at(g: float, u: float, activation: Any, dtype: Any = "float64") -> tuple[float, float]:
    """One gated hidden unit with branches g and u."""
    h, bound = oracle.hidden([1.0], [[g]], None, [[u]], activation=activation, dtype=dtype)
    return float(h[0]), float(bound[0])


def silu(x: float, alpha: float = 1.0) -> float:
    return x / (1.0 + math.exp(-alpha * x))


@pytest.mark.parametrize(
    ("g", "u", "activation", "value"),
    [
        (-9.0, -9.0, gate(7.0), silu(-9.0) * -7.0),  # the gate is clamped above only
        (9.0, 9.0, gate(7.0), silu(7.0) * 7.0),
        (9.0, 9.0, gate(None), silu(9.0) * 9.0),
        (9.0, 9.0, gate(0.0, offset=1.0), 0.0),  # a limit of 0 is a limit
        (-2.0, 9.0, gate(0.0, offset=1.0), silu(-2.0)),
        (10.0, 1.0, gate(7.0, clip="before"), 6.9936),
        (10.0, 1.0, gate(7.0, clip="after"), 7.0),
        (-9.0, -9.0, gate(7.0, clip="after"), silu(-9.0) * -7.0),
        (3.0, 2.0, gate(7.0, 1.702, 1.0), silu(3.0, 1.702) * 3.0),  # GPT-OSS
    ],
)
def test_clipped_gate(g, u, activation, value):
    assert gated_at(g, u, activation)[0] == pytest.approx(value, rel=1e-5 if value == 6.9936 else 1e-14, abs=1e-300)


@pytest.mark.parametrize("dtype", U)
def test_alpha_and_offset_show_in_every_dtype(dtype):
    value, bound = gated_at(1.0, 2.0, gate(7.0), dtype)
    for other in (gate(7.0, alpha=1.702), gate(7.0, offset=1.0)):
        assert abs(gated_at(1.0, 2.0, other, dtype)[0] - value) > 2 * bound
    for g, other in ((10.0, gate(7.0, clip="after")), (10.0, gate(None))):
        there, bound = gated_at(g, 2.0, gate(7.0), "float32")
        assert abs(gated_at(g, 2.0, other, "float32")[0] - there) > 100 * bound


def test_gate_passes_nan():
    assert math.isnan(gated_at(math.nan, 1.0, gate(7.0))[0])
    assert math.isnan(gated_at(1.0, math.nan, gate(7.0))[0])


class Bilinear:
    """A gate object of a caller's own."""

    def gate(self, g, u):
        assert type(g) is np.ndarray
        assert g.dtype == np.float64
        return g * u

    def gate_vjp(self, g, u, d):
        return d * u, d * g


def test_a_gate_object_is_called_on_float64_numpy():
    given = network(3, 8, 32, gated=True)
    y, bound = oracle.feed_forward(*given, activation=Bilinear())
    named, tighter = oracle.feed_forward(*given, activation="identity")
    assert np.allclose(y, named, rtol=0, atol=1e-15)
    assert np.all(bound >= tighter / 2)
    assert np.all(bound < 20 * tighter)


def test_a_callable_is_called_on_float64_numpy():
    def relu(x):
        assert type(x) is np.ndarray
        assert x.dtype == np.float64
        return np.maximum(x, 0.0)

    given = network(4, 8, 32, dtype="float32")
    y, bound = oracle.feed_forward(*given, activation=relu)
    named, tighter = oracle.feed_forward(*given)
    assert np.array_equal(y, named)
    assert np.all(bound >= tighter)
    assert np.all(bound < 5 * tighter)


# ---- shapes, dtypes, words


def test_leading_axes_and_empty_ones():
    _, W1, b1, W2, b2, *_ = network(18, 4, 8)
    assert oracle.feed_forward(np.ones(4), W1, b1, W2, b2)[0].shape == (4,)
    assert oracle.feed_forward(np.ones((0, 4)), W1, b1, W2, b2)[1].shape == (0, 4)
    assert oracle.feed_forward(np.ones((2, 0, 4)), W1, b1, W2, b2)[0].shape == (2, 0, 4)
    y, bound = oracle.feed_forward(
        np.ones((2, 3, 4)), np.ones((4, 0)), np.ones(0), np.ones((0, 4)), b2, activation="gelu"
    )
    assert np.array_equal(y, np.broadcast_to(b2, (2, 3, 4)))
    assert np.all(bound < 1e-15)
    assert oracle.feed_forward(np.ones((2, 0)), np.ones((0, 3)), None, np.ones((3, 2)), None)[0].tolist() == [
        [0, 0],
        [0, 0],
    ]
    one = np.ones((2, 3, 4))
    together, _ = oracle.feed_forward(one, W1, b1, W2, b2)
    assert np.allclose(together, oracle.feed_forward(np.ones(4), W1, b1, W2, b2)[0], rtol=1e-15)


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        (("float32", "float32"), "float32"), (("float32", "float64"), "float64"), (("float16", "bfloat16"), "float32"),
        (("float16", "int64"), "float16"), (("int8", "int32"), "float64"), (("bfloat16", "float32"), "float32"),
        (("bool", "bfloat16"), "bfloat16"),
    ],
)  # fmt: skip
def test_the_dtype_is_that_of_the_inputs(dtypes, expected):
    x, W = np.ones((1, 1), numpy_dtype(dtypes[0])), np.ones((1, 1), numpy_dtype(dtypes[1]))
    y, bound = oracle.hidden(x, W)
    assert y.dtype == bound.dtype == np.float64
    assert np.array_equal(bound, oracle.hidden([[1.0]], [[1.0]], dtype=expected)[1])


def test_integers_are_numbers():
    _, W1, b1, W2, b2, *_ = network(19, 4, 8)
    whole = np.array([[1, 2, 3, 4]])
    assert np.array_equal(
        oracle.feed_forward(whole, W1, b1, W2, b2)[0], oracle.feed_forward(whole.astype(float), W1, b1, W2, b2)[0]
    )


def test_unit_roundoff_takes_the_dtypes_of_libraries(require):
    require("torch")
    import torch

    for name, u in U.items():
        assert oracle.unit_roundoff(name) == oracle.unit_roundoff(getattr(torch, name)) == u
        assert oracle.unit_roundoff(numpy_dtype(name)) == oracle.unit_roundoff(numpy_dtype(name).type) == u
    with pytest.raises(TypeError, match=r"dtype must be one of float64, float32, bfloat16, float16, got torch\.int32"):
        oracle.unit_roundoff(torch.int32)


def test_tensors_that_numpy_cannot_take_are_refused_with_the_way_out(require):
    require("torch")
    import torch

    W = np.ones((2, 2))
    assert oracle.hidden(torch.ones(1, 2), torch.ones(2, 2))[0].tolist() == [[2.0, 2.0]]
    for x in (torch.ones(1, 2, requires_grad=True), torch.ones(1, 2, dtype=torch.bfloat16)):
        with pytest.raises(TypeError, match=r"x must be something that numpy\.asarray takes, got Tensor.*detach it"):
            oracle.hidden(x, W)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"x": None}, TypeError, "x must be an array, got None"),
        ({"x": np.ones((1, 4), complex)}, TypeError, "x must be real numbers .* got dtype complex128"),
        ({"W1": np.array([["a"]])}, TypeError, "W1 must be real numbers"),
        ({"x": np.ones((1, 4), np.longdouble)}, TypeError, "x must be real numbers"),
        ({"x": np.float64(1)}, ValueError, "x must have at least one axis"),
        ({"W1": np.ones((2, 4, 8))}, ValueError, r"W1 must have shape \(d_model, d_ff\), got \(2, 4, 8\)"),
        ({"W1": np.ones((5, 8))}, ValueError, r"W1 must have shape \(4, 8\), got \(5, 8\)"),
        ({"b1": np.ones(1)}, ValueError, r"b1 must have shape \(8,\), got \(1,\)"),
        ({"b2": np.ones((3, 4))}, ValueError, r"b2 must have shape \(4,\), got \(3, 4\)"),
        ({"W2": np.ones((4, 8)), "b1": np.ones(2)}, ValueError, r"b1 must have .*; W2 must have shape \(8, 8\)"),
        ({"c": np.ones(8)}, ValueError, "c is the bias of the linear branch, so it must come with V"),
        ({"activation": "gelo"}, ValueError, "activation must be one of elu, gelu, .* got 'gelo'; did you mean 'gelu'"),
        ({"activation": 3}, TypeError, "activation must be a name, a gate object or a callable, got int"),
        ({"activation": gate(7.0)}, ValueError, "a gate object needs the linear branch V, got V=None"),
        ({"activation": gate(clip="now"), "V": np.ones((4, 8))}, ValueError, 'clip must be "before" or "after"'),
        ({"activation": np.sum}, ValueError, r"activation must return an array of its argument's shape \(1, 8\)"),
        ({"dtype": "float8_e4m3fn"}, TypeError, "dtype must be one of float64"),
    ],
)  # fmt: skip
def test_messages(change, error, match):
    arguments = {"x": np.ones((1, 4)), "W1": np.ones((4, 8)), "b1": np.ones(8), "W2": np.ones((8, 4)), "b2": np.ones(4)}
    with pytest.raises(error, match=match):
        oracle.feed_forward(**arguments | change)


def test_the_oracle_shares_nothing_with_the_implementation():
    for path in Path(oracle.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                names = [(node.module or "").removeprefix("portable_ffn.oracle.")]
            else:
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert {name.partition(".")[0] for name in names} <= {
                "numpy",
                "math",
                "typing",
                "collections",
                "itertools",
                "difflib",
                *(room.stem for room in Path(oracle.__file__).parent.glob("*.py")),
            }
