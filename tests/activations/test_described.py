"""What help shows of an activation: a formula that is its formula, a range that is its range, a source."""

import inspect
import math
import pydoc
import re

import numpy as np
import pytest

from portable_ffn import ACTIVATIONS, feed_forward
from portable_ffn._activations.described import DESCRIBED
from portable_ffn._activations.named import Named


def test_every_activation_is_described():
    assert list(DESCRIBED) == list(ACTIVATIONS)


@pytest.mark.parametrize("name", DESCRIBED)
def test_the_formula_and_the_range(name):
    formula, least, most, _ = DESCRIBED[name]
    # A product is written by a space; a function's name stays before its bracket.
    text = re.sub(r"(?<=[\w)]) (?=[\w(])", " * ", formula)
    x = np.linspace(-12, 12, 24001)
    y = ACTIVATIONS[name](x)
    program = compile(text, name, "eval")
    names = {"min": min, "max": max, "abs": abs, **vars(math)}
    wanted = [eval(program, names, {"x": float(one)}) for one in x[::100]]
    np.testing.assert_allclose(y[::100], wanted, rtol=1e-9, atol=1e-12)
    assert least - 1e-6 <= y.min()
    assert y.max() <= most
    if math.isfinite(least):
        inside = 0 < y.argmin() < y.size - 1
        assert y.min() - least < (1e-6 if inside else 0.1)
    if math.isfinite(most):
        assert most - y.max() < 0.1


@pytest.mark.parametrize("name", ["laplace", "relu"])
def test_help_shows_it(name):
    shown = pydoc.plain(pydoc.render_doc(ACTIVATIONS[name]))
    for part in (DESCRIBED[name].formula, "Range: from 0 to ", f"Source: {DESCRIBED[name].source}", "of any library"):
        assert part in shown
    assert "entry of `ACTIVATIONS`" in inspect.getdoc(Named)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("swish", "'silu'"),
        ("linear", "'identity'"),
        ("relu_squared", "'relu2'"),
        ("squared_relu", "'relu2'"),
        ("swiglu", "'silu', with V"),
        ("geglu", "'gelu', with V"),
        ("reglu", "'relu', with V"),
        ("gelu_new", "'gelu_tanh'"),
        ("gelu_fast", "'gelu_tanh'"),
        ("gelu_pytorch_tanh", "'gelu_tanh'"),
        ("hardswish", "'hard_swish'"),
        ("HardSwish", "'hard_swish'"),
    ],
)
def test_other_words_lead_to_the_right_name(said, meant):
    one = np.ones((1, 1))
    with pytest.raises(ValueError, match=f"did you mean {re.escape(meant)}"):
        feed_forward(one, one, None, one, None, activation=said)
