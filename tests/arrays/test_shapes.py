"""Shapes that fit, leading axes of any number, and what is said of those that don't fit."""

import numpy as np
import pytest

from portable_ffn import (
    feed_forward,
    hidden,
    oracle,
)
from portable_ffn.testing import assert_agrees
from tests.contract import G, W, X, every_backend, put

WRONG_SHAPES = {
    "x with another width": (
        {"x": X[:, :3]},
        r"x must have shape \(\.\.\., d_model\) with d_model = 4 as W1 has, got \(3, 3\)",
    ),
    "0-d x": ({"x": np.float64(1.0)}, r"x must have shape \(\.\.\., d_model\), at least one axis, got a 0-d array"),
    "W1 transposed": ({"W1": W.W1.T}, r"W1 must have shape \(d_model, d_ff\) .* got \(8, 4\); transpose it$"),
    "W2 transposed": ({"W2": W.W2.T}, r"^W2 must have shape \(d_ff, d_model\) = \(8, 4\), got \(4, 8\); transpose it$"),
    "W2 of another d_ff": ({"W2": W.W2[:5]}, r"W2 must have shape .* got \(5, 4\); W1 has d_ff = 8 columns"),
    "W1 of one axis": ({"W1": W.b1}, r"W1 must have two axes, \(d_model, d_ff\), got shape \(8,\)"),
    "W1 of three axes": ({"W1": W.W1[None]}, r"W1 must have two axes, .*got shape \(1, 4, 8\); .*vmap.*experts"),
    "W2 of three axes": ({"W2": W.W2[None]}, r"W2 must have two axes"),
    "b1 of one number": (
        {"b1": W.b1[:1]},
        r"b1 must have shape \(d_ff,\) = \(8,\), .*got \(1,\); no bias is broadcast",
    ),
    "b1 of d_model": ({"b1": W.b2}, r"b1 must have shape \(d_ff,\) = \(8,\), .*got \(4,\)"),
    "b1 for each position": ({"b1": np.ones((3, 8))}, r"b1 must have shape .*got \(3, 8\)"),
    "b1 of no axis": ({"b1": np.float64(1.0)}, r"b1 must have shape .*got \(\)"),
    "b2 of d_ff": ({"b2": W.b1}, r"b2 must have shape \(d_model,\) = \(4,\), .*got \(8,\)"),
    "V transposed": (
        {"V": W.W1.T},
        r"V must have the shape of W1, \(d_model, d_ff\) = \(4, 8\), got \(8, 4\); transpose it",
    ),
    "c without V": ({"c": W.b1}, r"c must come with V"),
    "c of d_model": ({"V": W.W1, "c": W.b2}, r"c must have shape \(d_ff,\) = \(8,\)"),
    "both biases": ({"b1": W.b2, "b2": W.b1}, r"b1 must have shape .*; b2 must have shape"),
}


@pytest.mark.parametrize("fault", WRONG_SHAPES)
def test_wrong_shapes(fault):
    changes, match = WRONG_SHAPES[fault]
    with pytest.raises(ValueError, match=match):
        feed_forward(**{"x": X, **W._asdict(), **changes})


@every_backend
def test_wrong_shapes_fail_at_the_call_on_every_library(backend):
    x, *weights = put(backend, (X, *W))
    with pytest.raises(ValueError, match="W2 must have shape"):
        feed_forward(x, weights[0], weights[1], weights[0], weights[3])


@every_backend
@pytest.mark.parametrize("shape", [(4,), (0, 4), (2, 0, 4), (1, 4), (2, 3, 4), (2, 1, 3, 4)], ids=str)
@pytest.mark.parametrize("weights", [W, G], ids=["plain", "gated"])
def test_any_number_of_leading_axes(backend, shape, weights):
    x = np.random.default_rng(1).standard_normal(shape)
    moved = put(backend, (x, *weights))
    y = feed_forward(*moved, activation="silu")
    assert_agrees(y, moved[0], *oracle.feed_forward(x, *weights, activation="silu"))
    assert hidden(moved[0], moved[1], moved[2], *moved[5:], activation="silu").shape == (*shape[:-1], 8)


@every_backend
def test_no_hidden_unit_at_all(backend):
    x, W1, W2, b2 = put(backend, (X, np.ones((4, 0)), np.ones((0, 4)), W.b2))
    y = backend.take(feed_forward(x, W1, None, W2, b2))
    assert np.array_equal(y, np.broadcast_to(backend.take(b2), (3, 4)))


def test_a_projection_has_another_width():
    W2, b2 = np.ones((8, 5)), np.ones(5)
    assert feed_forward(X, W.W1, W.b1, W2, b2).shape == (3, 5)
