"""An answer outside the bound, with all that was known when it was computed."""

from typing import NamedTuple

import numpy as np

from portable_ffn import feed_forward, hidden, oracle
from portable_ffn._arrays.dtype import REAL_FLOATING
from portable_ffn._arrays.typing import Activation
from portable_ffn._network.weights import Weights
from portable_ffn.testing._backends.arrays import Float64
from portable_ffn.testing._measure.compare import shares

Answer = tuple[Float64, Float64]
"""What a faulty network would give in exact arithmetic, and the bound of its rounding."""


class Failure(NamedTuple):
    """A network's answer outside the bound.

    x and the weights are the float64 numbers that the network was given in `dtype`. `came` is the name of its answer's
    dtype ("" where it is no array), `got` the answer in float64, None where it could not be read or has the wrong
    shape. `expected` and `bound` are the oracle's; `case` is the name of the row of inputs.
    """

    x: Float64
    weights: Weights
    activation: Activation
    dtype: str
    came: str
    got: Float64 | None
    expected: Float64
    bound: Float64
    case: str

    @property
    def rounding(self) -> str:
        """The dtype whose rounding the answer shows: its own."""
        return self.came if self.came in REAL_FLOATING else self.dtype

    def network(self, x: Float64 | None = None, activation: Activation | None = None, **changes: object) -> Answer:
        """The oracle's answer with something changed."""
        weights = self.weights._replace(**changes)
        act = self.activation if activation is None else activation
        inputs = self.x if x is None else x
        y, bound = oracle.feed_forward(inputs, *weights, activation=act, dtype=self.rounding)
        return y, bound

    def hidden(self, **changes: object) -> Answer:
        """The oracle's hidden layer with something changed."""
        w = self.weights._replace(**changes)
        h, bound = oracle.hidden(self.x, w.W1, w.b1, w.V, w.c, activation=self.activation, dtype=self.rounding)
        return h, bound

    def worst(self, answer: Answer) -> float:
        """The largest error of what came, in units of the bound, if `answer` were meant; inf where it can't be."""
        y, bound = answer
        if self.got is None or y.shape != self.got.shape:
            return float("inf")
        return float(np.max(shares(self.got, y, bound), initial=0.0))


class Exact(Failure):
    """A failure whose hypotheses are tried in exact arithmetic, for which float64 on NumPy stands.

    Each has the bound of what is meant: far quicker than an oracle's answer for each.
    """

    def network(self, x: Float64 | None = None, activation: Activation | None = None, **changes: object) -> Answer:
        """The network's answer with something changed."""
        act = self.activation if activation is None else activation
        y: Float64 = feed_forward(self.x if x is None else x, *self.weights._replace(**changes), activation=act)
        return y, self.bound

    def hidden(self, **changes: object) -> Answer:
        """The hidden layer with something changed, taken for exact."""
        w = self.weights._replace(**changes)
        h: Float64 = hidden(self.x, w.W1, w.b1, w.V, w.c, activation=self.activation)
        return h, np.zeros_like(h)
