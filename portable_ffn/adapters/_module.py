"""What the modules of all frameworks have in common: which parameters, what is checked, and the one way forward."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from portable_ffn._activations.resolve import resolve
from portable_ffn._arrays.number import as_float
from portable_ffn._arrays.shapes import check_shapes
from portable_ffn._arrays.typing import Activation, Array
from portable_ffn._network.feed_forward import feed_forward, hidden
from portable_ffn._network.init import widths
from portable_ffn._network.weights import Weights

# The linear layers of a network, in the order in which they are initialised: the weight and its bias.
LAYERS = (("W1", "b1"), ("W2", "b2"), ("V", "c"))


def shapes(d_model: int, d_ff: int | None, gated: bool, bias: bool) -> Weights:
    """The shape of each parameter, None for what the network lacks."""
    d_model, d_ff = widths(d_model, d_ff, gated)
    into, out = (d_model, d_ff), (d_ff, d_model)
    return Weights(
        W1=into,
        b1=(d_ff,) if bias else None,
        W2=out,
        b2=(d_model,) if bias else None,
        V=into if gated else None,
        c=(d_ff,) if gated and bias else None,
    )


def check_weights(weights: Weights) -> None:
    """Raise TypeError for what is no Weights, ValueError unless the shapes are those of a network."""
    if isinstance(getattr(weights, "weights", None), Weights):
        kind = type(weights).__name__
        raise TypeError(f"weights must be Weights, got {kind}; pass its .weights, and its activation as activation=")
    if not hasattr(weights, "W1"):
        raise TypeError(f"weights must be Weights, got {type(weights).__name__}; make one by Weights(W1, b1, W2, b2)")
    x = SimpleNamespace(shape=tuple(weights.W1.shape)[:1])
    check_shapes(x, *weights)


def check_settings(activation: Activation, gated: bool, dropout: float) -> float:
    """The rate of dropout as a float; ValueError or TypeError for an activation or a rate that can't be."""
    resolve(activation, gated)
    rate = as_float("dropout", dropout)
    if not 0 <= rate < 1:
        raise ValueError(f"dropout must be the share of the hidden layer to drop, 0 <= dropout < 1, got {dropout}")
    return rate


def forward(x: Array, weights: Weights, activation: Activation, drop: Callable[[Any], Any] | None = None) -> Array:
    """The network, with `drop` on the hidden layer where it is given.

    The second product is then a hidden layer without an activation, so that dtypes and autocast keep one rule.
    """
    if drop is None:
        return feed_forward(x, *weights, activation=activation)
    h = hidden(x, weights.W1, weights.b1, weights.V, weights.c, activation=activation)
    return hidden(drop(h), weights.W2, weights.b2, activation="identity")
