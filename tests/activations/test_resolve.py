"""From `activation=` to an activation: names, callables, gates, and errors that help."""

import numpy as np
import pytest

from portable_ffn import (
    ClippedGate,
    feed_forward,
    init_weights,
    oracle,
)
from portable_ffn.testing import assert_agrees
from tests.contract import G, W, X, every_backend, put


def test_unknown_names_and_things():
    with pytest.raises(
        ValueError, match=r"activation must be one of relu, .*, got 'gelu_tan'; did you mean 'gelu_tanh'\?"
    ):
        feed_forward(X, *W, activation="gelu_tan")
    with pytest.raises(TypeError, match=r"activation must be a name, a gate .* or a callable on one array, got int"):
        feed_forward(X, *W, activation=3)
    with pytest.raises(ValueError, match=r"got the gate portable_ffn.ClippedGate; pass V"):
        feed_forward(X, *W, activation=ClippedGate(7.0))
    with pytest.raises(TypeError, match="activation must return an array of the library of its argument, got float"):
        feed_forward(X, *W, activation=lambda h: 1.0)
    with pytest.raises(ValueError, match=r"activation must keep the shape of its argument, \(3, 8\), got \(3, 1\)"):
        feed_forward(X, *W, activation=lambda h: h[:, :1])


@every_backend
def test_a_callable_on_every_library(backend):
    moved = put(backend, (X, *W))
    y = feed_forward(*moved, activation=lambda h: h * h)
    assert_agrees(y, moved[0], *oracle.feed_forward(X, *W, activation=lambda h: h * h))


@every_backend
def test_a_gate_object_on_every_library(backend):
    class Difference:
        def gate(self, g, u):
            return g * u - u

    moved = put(backend, (X, *G))
    y = feed_forward(*moved, activation=Difference())
    assert_agrees(y, moved[0], *oracle.feed_forward(X, *G, activation=Difference()))


def test_an_activation_in_capitals_is_guessed():
    with pytest.raises(ValueError, match="did you mean 'gelu'"):
        feed_forward(X, *W, activation="GELU")


@pytest.mark.parametrize("dtype", ["complex128", "U3"])
def test_an_activation_returns_real_numbers(dtype):
    weights = init_weights(4, 8)
    with pytest.raises(TypeError, match="activation must return real numbers, got dtype"):
        feed_forward(np.ones((3, 4)), *weights, activation=lambda g: g.astype(dtype))


def test_an_error_of_the_callers_own_activation_keeps_its_cause():
    def activation(h):
        try:
            raise KeyError("cause")
        except KeyError as error:
            raise ValueError("mine") from error

    with pytest.raises(ValueError, match="mine") as raised:
        feed_forward(np.ones((3, 4)), *init_weights(4, 8), activation=activation)
    assert isinstance(raised.value.__cause__, KeyError)
