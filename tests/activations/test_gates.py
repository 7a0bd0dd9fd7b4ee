"""Gates: their clamps to the digit, and clamps that can't be."""

import numpy as np
import pytest

from portable_ffn import (
    ClippedGate,
)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"limit": -1.0}, "limit must be zero or more"),
        ({"limit": float("nan")}, "limit must be zero or more"),
        ({"limit": 7.0, "alpha": float("inf")}, "alpha and offset must be finite"),
        ({"limit": 7.0, "clip": "between"}, 'clip must be "before" or "after"'),
    ],
)
def test_clamps_that_cannot_be(arguments, match):
    with pytest.raises(ValueError, match=match):
        ClippedGate(**arguments)


def test_clamps_to_the_digit():
    gate = ClippedGate(7.0)
    g, u = np.asarray([-9.0, 10.0]), np.asarray([-9.0, 1.0])
    sigmoid = 1 / (1 + np.exp(9.0))
    assert gate.gate(g, u)[0] == pytest.approx(-9.0 * sigmoid * -7.0, rel=1e-14)
    assert gate.gate(g, u)[1] == pytest.approx(6.9936, abs=5e-5)
    assert ClippedGate(7.0, clip="after").gate(g, u)[1] == 7.0
    assert ClippedGate(0.0).gate(g, u).tolist() == [0.0, 0.0]
    assert ClippedGate(None).gate(g, u)[1] == pytest.approx(10 / (1 + np.exp(-10.0)), rel=1e-14)
    assert ClippedGate(None, 1.702).gate(g, u)[1] != ClippedGate(None, 1.0).gate(g, u)[1]
    assert ClippedGate(7.0, 1.0, 1.0).gate(g, u)[1] == pytest.approx(2 * 6.9936, abs=1e-4)
    assert hash(ClippedGate(np.float32(7))) == hash(ClippedGate(7.0))
    assert type(ClippedGate(np.asarray(7.0)).limit) is float


def test_gates_called_on_their_own_are_quiet():
    huge = np.array([1e300, -1e300, np.inf, 0.0])
    with np.errstate(all="raise"):
        for gate in (ClippedGate(None), ClippedGate(7.0, 1.702, 1.0)):
            gate.gate(huge, huge)
            gate.gate_vjp(huge, huge, huge)
