"""What the modules of all frameworks have in common: which parameters, what is checked, and the one way forward."""

from collections.abc import Callable
from typing import Any

from portable_ffn._activations.resolve import resolve
from portable_ffn._arrays import shapes as arrays
from portable_ffn._arrays.errors import refusal
from portable_ffn._arrays.number import as_float
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
        advice = "pass its .weights, and its activation as activation="
        raise refusal(TypeError, "weights", f"must be Weights, got {kind}", advice)
    if not hasattr(weights, "W1"):
        advice = "make one by Weights(W1, b1, W2, b2)"
        raise refusal(TypeError, "weights", f"must be Weights, got {type(weights).__name__}", advice)
    arrays.check_weights(*weights)


def check_settings(activation: Activation, gated: bool, dropout: float) -> float:
    """The rate of dropout as a float; ValueError or TypeError for an activation or a rate that can't be."""
    resolve(activation, gated)
    rate = as_float("dropout", dropout)
    if not 0 <= rate < 1:
        statement = f"must be the share of the hidden layer to drop, 0 <= dropout < 1, got {dropout}"
        raise refusal(ValueError, "dropout", statement)
    return rate


def forward(x: Array, weights: Weights, activation: Activation, drop: Callable[[Any], Any] | None = None) -> Array:
    """The network, with `drop` on the hidden layer where it is given.

    The second product is then a hidden layer without an activation, so that dtypes and autocast keep one rule.
    """
    if drop is None:
        return feed_forward(x, *weights, activation=activation)
    h = hidden(x, weights.W1, weights.b1, weights.V, weights.c, activation=activation)
    return hidden(drop(h), weights.W2, weights.b2, activation="identity")


def missing(framework: str, extra: str) -> ImportError:
    """The error that names the framework, and the extra that installs it."""
    return ImportError(
        f"portable_ffn.adapters.{extra} needs {framework}, which is not installed; "
        f'install it by pip install "portable-ffn[{extra}]"',
    )
