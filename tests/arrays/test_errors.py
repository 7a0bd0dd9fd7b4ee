"""Errors can be read by their parts, and public classes are pickled by their public names."""

import pickle
import pickletools

import numpy as np
import pytest

import portable_ffn
from portable_ffn import ClippedGate, Weights, feed_forward, feed_forward_vjp, init_weights, layer_norm, sublayer

W = init_weights(4, 6, gated=True)
X = np.ones((2, 4))


@pytest.mark.parametrize(
    ("call", "argument", "advice"),
    [
        (lambda: feed_forward([1.0], *W), "x", "make an array of it first"),
        (lambda: feed_forward(np.ma.ones((2, 4)), *W), "x", "pass x.filled(value)"),
        (lambda: feed_forward(X, W, *W[1:]), "W1", "unpack it with a star, as in feed_forward(x, *weights)"),
        (lambda: feed_forward(X, W, None, W.W2, None), "W1", "unpack it with a star"),
        (lambda: feed_forward_vjp(X, W, *W[1:]), "W1", "unpack it with a star"),
        (lambda: feed_forward(X, tuple(W), *W[1:]), "W1", "make an array of it first"),
        (lambda: feed_forward(X, None, *W[1:]), "W1", "only biases and V may be None"),
        (lambda: feed_forward(X, W.W1.T, *W[1:]), "W1", "transpose it"),
        (lambda: feed_forward(X[:, :3], W.W1, W.b1[:1], *W[2:]), "x", "b1 must have shape"),
        (lambda: feed_forward(X, W.W1, W.b1[:1], *W[2:]), "b1", "no bias is broadcast"),
        (lambda: feed_forward(X, *W[:2], W.W2.T, *W[3:]), "W2", "transpose it"),
        (lambda: feed_forward(X.astype(complex), *W), "x", "cast it first"),
        (lambda: feed_forward(X, *W, activation="swish"), "activation", "did you mean 'silu'?"),
        (lambda: feed_forward(X, *W, activation="swiglu"), "activation", "did you mean 'silu', with V"),
        (lambda: feed_forward(X, *W[:4], activation=ClippedGate(1.0)), "activation", "pass V"),
        (lambda: feed_forward_vjp(X, *W, activation=np.tanh), "activation", "set it, or pass a name"),
        (lambda: feed_forward_vjp(X, *W)[1](X[0]), "dy", "no gradient is broadcast"),
        (lambda: layer_norm(X, None, eps=-1.0), "eps", ""),
        (lambda: sublayer(X, W, 1.0), "norm", "pass a function of x"),
        (lambda: W.to(device="gpu"), "device", ""),
        (lambda: ClippedGate("7"), "limit", ""),
    ],
)
def test_parts_of_an_error(call, argument, advice):
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    error = caught.value
    assert error.argument == argument
    assert error.advice.startswith(advice)
    assert str(error) == f"{argument} {error.statement}" + (f"; {error.advice}" if error.advice else "")
    assert vars(pickle.loads(pickle.dumps(error))) == vars(error)


def test_a_gradient_of_another_library_is_to_be_converted():
    torch = pytest.importorskip("torch")
    _, pullback = feed_forward_vjp(X, *W)
    with pytest.raises(TypeError, match=r"x and dy must belong to one library, .*; convert dy$") as caught:
        pullback(torch.ones(2, 4))
    assert caught.value.advice == "convert dy"


@pytest.mark.parametrize("value", [ClippedGate(7.0), W])
def test_public_classes_are_pickled_by_their_public_names(value):
    assert type(value).__module__ == "portable_ffn"
    assert getattr(portable_ffn, type(value).__name__) is type(value)
    # NumPy's own names aside.
    named = [argument for _, argument, _ in pickletools.genops(pickle.dumps(value)) if isinstance(argument, str)]
    assert "portable_ffn" in named
    assert not [name for name in named if name.startswith("portable_ffn.")]
    assert type(pickle.loads(pickle.dumps(value))) is type(value)


def test_weights_that_were_made_without_a_name_are_the_public_ones():
    assert f"{Weights.__module__}.{Weights.__qualname__}" == "portable_ffn.Weights"
