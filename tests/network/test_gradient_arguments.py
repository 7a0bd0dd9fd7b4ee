"""Gradients of activations of the user's, and what the arguments and dy must be."""

import numpy as np
import pytest

from portable_ffn import feed_forward_vjp, init_weights
from portable_ffn._activations.gates import SoftcapGate, TopKGate
from portable_ffn._activations.learned import XIELU, PReLU, TanhGELU
from portable_ffn.testing import BACKENDS
from tests.network.gradients import case, check


def test_activations_of_the_user():
    """With a derivative, on any library; the learned ones and every gate bring theirs."""
    *given, dy = case(16, gated=True)

    def cube(h):
        return h * h * h

    cube.derivative = lambda h: 3 * h * h
    for activation in (cube, PReLU(0.2), PReLU([0.1] * 7), XIELU(0.3, 0.4), TanhGELU()):
        for name in ("numpy", "torch", "mlx", "dask"):
            if BACKENDS[name].missing() is None and (name != "dask" or activation is cube):
                check(name, (*given, dy), activation)
                check(name, case(16), activation)
    for gate in (SoftcapGate(5.0, 4.0), TopKGate(0.5)):
        for name in ("numpy", "array-api-strict", "torch"):
            if BACKENDS[name].missing() is None:
                check(name, (*given, dy), gate)


def test_an_activation_without_a_derivative_is_refused_at_once():
    *given, _ = case(16, gated=True)
    with pytest.raises(TypeError, match="attribute `derivative`, a function of the same array, got function without"):
        feed_forward_vjp(*given, activation=lambda h: h * h)

    class Gate:
        def gate(self, g, u):
            return g + u

    with pytest.raises(TypeError, match=r"method `gate_vjp\(g, u, d\)` .*, got the gate .*Gate without one"):
        feed_forward_vjp(*given, activation=Gate())
    with pytest.raises(ValueError, match="activation must be one of"):
        feed_forward_vjp(*given, activation="rleu")


def test_a_derivative_must_keep_the_shape():
    def f(h):
        return h

    f.derivative = lambda h: h[..., :1]
    *given, dy = case(16)
    _, pullback = feed_forward_vjp(*given, activation=f)
    with pytest.raises(ValueError, match="activation must keep the shape"):
        pullback(dy)


def test_what_dy_must_be(require):
    require("torch")
    import torch

    *given, dy = case(17)
    _, pullback = feed_forward_vjp(*given)
    with pytest.raises(ValueError, match=r"dy must have the shape of y, \(2, 3, 4\), got \(3, 4\); no gr"):
        pullback(dy[0])
    with pytest.raises(TypeError, match="x and dy must belong to one library, got x of numpy and dy of torch; convert"):
        pullback(torch.tensor(dy))
    with pytest.raises(TypeError, match=r"dy must be an array .*, got None"):
        pullback(None)
    with pytest.raises(TypeError, match=r"dy must be real floating .*, got dtype complex128; cast it first"):
        pullback(dy.astype("complex128"))
    meta = [None if v is None else torch.tensor(v) for v in given]
    _, pullback = feed_forward_vjp(*meta)
    with pytest.raises(ValueError, match="x and dy must be on one device, got x on cpu and dy on meta; convert dy"):
        pullback(torch.tensor(dy, device="meta"))


def test_the_arguments_are_checked_as_the_forward_checks_them():
    *given, _ = case(17)
    x, W1, b1, W2, b2, *_ = given
    with pytest.raises(ValueError, match="W2 must have shape"):
        feed_forward_vjp(x, W1, b1, W2.T, b2)
    with pytest.raises(TypeError, match="W2 must be an array, got None"):
        feed_forward_vjp(x, W1, b1, None, b2)
    with pytest.raises(ValueError, match="c must come with V"):
        feed_forward_vjp(x, W1, b1, W2, b2, None, b1)


def in_place(g):
    """silu that works in the memory it is given, and so does its derivative."""
    return np.divide(g, 1 + np.exp(-g), out=g)


def its_derivative(g):
    s = 1 / (1 + np.exp(-g))
    return np.add(s, g * s * (1 - s), out=g)


class InPlaceGate:
    def gate(self, g, u):
        return np.multiply(g, u, out=g)

    def gate_vjp(self, g, u, d):
        by_g = d * u
        return by_g, np.multiply(g, d, out=g)


@pytest.mark.parametrize("gated", [False, True])
def test_a_gradient_is_right_although_the_activation_works_in_place(gated):
    in_place.derivative = its_derivative
    weights = init_weights(4, 8, gated=gated)
    x = np.linspace(-2, 2, 20).reshape(5, 4)
    y, pullback = feed_forward_vjp(x, *weights, activation=in_place)
    want, right = feed_forward_vjp(x, *weights, activation="silu")
    np.testing.assert_allclose(y, want, rtol=1e-13)
    for got, expected in zip(flat(pullback(x)), flat(right(x)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)


def test_a_gradient_is_right_although_the_gate_works_in_place():
    weights = init_weights(4, 8, gated=True)
    x = np.linspace(-2, 2, 20).reshape(5, 4)
    got = flat(feed_forward_vjp(x, *weights, activation=InPlaceGate())[1](x))
    for one, other in zip(got, flat(feed_forward_vjp(x, *weights, activation="identity")[1](x)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def flat(gradients):
    """dx and the gradients of the weights that are there."""
    dx, weights = gradients
    return [dx, *(d for d in weights if d is not None)]
