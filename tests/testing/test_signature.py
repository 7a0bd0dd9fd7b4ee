"""Which arrays a network takes, in what order, and what is noted of those that it leaves."""

import json

import numpy as np
import pytest

from portable_ffn import feed_forward
from portable_ffn.testing import check
from portable_ffn.testing._inputs.signature import arrays_taken


def none_at_all(x, W1, W2):
    return np.maximum(x @ W1, 0) @ W2


def only_b1(x, W1, b1, W2):
    return np.maximum(x @ W1 + b1, 0) @ W2


def no_c(x, W1, b1, W2, b2, V):
    return np.maximum(x @ W1 + b1, 0) * (x @ V) @ W2 + b2


def no_biases_gated(x, W1, W2, V):
    return np.maximum(x @ W1, 0) * (x @ V) @ W2


@pytest.mark.parametrize(
    ("fn", "gated", "note"),
    [
        (none_at_all, False, "none_at_all takes no b1, b2: checked without biases; say bias=False (--no-bias) "),
        (only_b1, False, "only_b1 takes no b2: checked without b2"),
        (no_c, True, "no_c takes no c: checked without c"),
        (no_biases_gated, True, "no_biases_gated takes no b1, b2, c: checked without biases"),
    ],
)
def test_arrays_that_a_network_does_not_take_are_noted(fn, gated, note, tmp_path):
    """A forgotten bias passes, since a network may have none; the report says what that leaves open."""
    report = check(fn, gated=gated, backends="numpy", dtypes="float64")
    assert report.passed
    (told,) = report.notes
    assert told.startswith(note)
    assert f"\nnote: {told}\n" in f"{report}\n"
    assert json.loads(report.to_json())["notes"] == [told]
    report.to_html(tmp_path / "page.html")
    assert note in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_what_is_meant_to_have_no_biases_is_not_noted():
    options = {"backends": "numpy", "dtypes": "float64", "cases": "curve"}
    assert check(none_at_all, bias=False, **options).notes == ()
    assert check(feed_forward, **options).notes == ()
    assert check(feed_forward, gated=True, **options).notes == ()
    assert "note:" not in str(check(none_at_all, bias=False, **options))


def five(x, W1, b1, W2, b2): ...


def seven(x, W1, b1, W2, b2, V, c): ...


def either(x, W1, b1, W2, b2, V=None, c=None): ...


def other_names(tokens, up, up_bias, down, down_bias): ...


def other_order(W1, b1, W2, b2, x): ...


def without_biases(x, W1, W2): ...


def gated_without_biases(x, W1, W2, V): ...


def without_c(x, W1, b1, W2, b2, V): ...


def four_of_other_names(tokens, gate, down, up): ...


def with_options(x, W1, b1, W2, b2, eps=1e-5): ...


def any_arrays(*arrays): ...


ALL = ("x", "W1", "b1", "W2", "b2", "V", "c")


@pytest.mark.parametrize(
    ("fn", "gated", "bias", "taken"),
    [
        (five, False, True, ALL[:5]),
        (five, False, False, ALL[:5]),
        (seven, True, True, ALL),
        (seven, False, True, ALL),
        (either, False, True, ALL[:5]),
        (either, True, True, ALL),
        (either, True, False, ALL[:6]),
        (other_names, False, True, ALL[:5]),
        (other_order, False, True, ("W1", "b1", "W2", "b2", "x")),
        (without_biases, False, True, ("x", "W1", "W2")),
        (without_biases, False, False, ("x", "W1", "W2")),
        (gated_without_biases, True, False, ("x", "W1", "W2", "V")),
        (without_c, True, True, ALL[:6]),
        (four_of_other_names, True, False, ("x", "W1", "W2", "V")),
        (with_options, False, True, ALL[:5]),
        (any_arrays, False, True, ALL[:5]),
        (any_arrays, True, True, ALL),
        (feed_forward, False, True, ALL[:5]),
        (max, False, True, ALL[:5]),
    ],
)
def test_a_network_is_called_with_what_it_takes(fn, gated, bias, taken):
    assert arrays_taken(fn, gated, bias) == taken


@pytest.mark.parametrize(
    ("fn", "gated"), [(five, True), (lambda x: x, False), (lambda a, b, c, d, e, f, g, h: a, True)]
)
def test_a_network_that_takes_something_else(fn, gated):
    with pytest.raises(TypeError, match=r"fn must take x, W1, b1, W2, b2.* got the parameters \("):
        check(fn, gated=gated)


def test_a_module_is_refused_at_once_with_what_to_do():
    import torch
    from flax import nnx

    with pytest.raises(TypeError, match=r"goes into a function\(x, W1, b1, W2, b2\) that puts those into it and"):
        check(nnx.Linear(8, 8, rngs=nnx.Rngs(0)), backends="jax")
    for module in (torch.nn.Sequential(torch.nn.Linear(8, 32)), torch.nn.Linear(8, 8)):
        with pytest.raises(TypeError, match=r"the linear layers of \w+ must be told apart, and 1 were found"):
            check(module, backends="torch")
    with pytest.raises(TypeError, match=r"fn must be a network to call .* got the class Linear"):
        check(torch.nn.Linear, backends="torch")


def test_a_module_that_takes_the_arrays_is_called_with_them():
    import torch

    class Network(torch.nn.Module):
        def forward(self, x, W1, b1, W2, b2):
            return torch.relu(x @ W1 + b1) @ W2 + b2

    assert check(Network(), backends="torch", dtypes="float32", cases=["curve", "ordinary"]).passed


def test_what_is_no_network():
    with pytest.raises(TypeError, match=r"fn must be a network to call .* got str"):
        check("feed_forward")


def test_without_biases_they_are_none():
    seen = []
    check(lambda *a: seen.append(a) or feed_forward(*a), bias=False, backends="numpy", dtypes="float64", cases="curve")
    check(
        lambda *a: seen.append(a) or feed_forward(*a),
        bias=False,
        gated=True,
        backends="numpy",
        dtypes="float64",
        cases="curve",
    )
    plain, gated = seen[0], seen[-1]  # each network is called again, to see whether its first answer stays
    assert [a is None for a in plain] == [False, False, True, False, True]
    assert [a is None for a in gated] == [False, False, True, False, True, False, True]
