"""The shape of a network's activation: the network through weights of 1 x 1, beside the one that is meant."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from portable_ffn._network.weights import Weights
from portable_ffn.testing._backends.arrays import Float64, take
from portable_ffn.testing._inputs.build import Inputs, Wanted
from portable_ffn.testing._inputs.cases import Case


@dataclass(frozen=True, slots=True)
class Curve:
    """A network of one hidden unit with W1 = W2 = 1, no biases and, where it is gated, x V + c = 1 (x without c).

    Attributes
    ----------
    network, place : str
        What it is meant to be, and where it ran.
    x, found, meant, bound : tuple of float
        The points, the network's answers there, the oracle's, and how far rounding may take the one from the other.
    """

    network: str
    place: str
    x: tuple[float, ...]
    found: tuple[float, ...]
    meant: tuple[float, ...]
    bound: tuple[float, ...]


def _through_ones(wanted: Wanted) -> Inputs:
    """241 points of [-6, 6], one position each."""
    one, zero = np.ones((1, 1)), np.zeros(1)
    V, c = (np.zeros((1, 1)), np.ones(1)) if wanted.biases else (one, zero)
    return Inputs(np.linspace(-6.0, 6.0, 241)[:, np.newaxis], Weights(one, zero, one, zero, V, c))


THROUGH_ONES = Case("through weights of 1 x 1", _through_ones)


def recovered(
    network: str,
    place: str,
    call: Callable[[], Any],
    inputs: Inputs,
    expected: Float64,
    bound: Float64,
) -> Curve | None:
    """The curve of a network; None where it raises, or returns something of another shape."""
    try:
        found = take(call())
    except Exception:  # what it raises on ordinary cases is told there
        return None
    if found.shape != expected.shape:
        return None
    columns = (inputs.x, found, expected, bound)
    return Curve(network, place, *(tuple(float(value) for value in column[:, 0]) for column in columns))
