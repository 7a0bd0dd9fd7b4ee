"""A failure whose hypotheses are tried in exact arithmetic, for which float64 on NumPy stands."""

import numpy as np

from portable_ffn import feed_forward, hidden
from portable_ffn._arrays.typing import Activation
from portable_ffn.testing._backends.arrays import Float64
from portable_ffn.testing._faults.failure import Answer, Failure


class Exact(Failure):
    """A failure with the bound of what is meant for every hypothesis: far quicker than an oracle's answer for each."""

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
