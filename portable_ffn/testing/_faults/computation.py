"""A network as data, so that a fault is a change of it: what it gives in exact arithmetic, and what rounding may do.

Float64 on NumPy stands for exact arithmetic. The bound follows the oracle's rules to first order, without its scalar
formulas: hundreds of faulty networks are computed for each failure.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from portable_ffn import ACTIVATIONS
from portable_ffn.oracle._bound import growth
from portable_ffn.oracle._formulas import FORMULAS
from portable_ffn.oracle._numbers import FLOATING
from portable_ffn.testing._backends.arrays import Float64

Answer = tuple[Float64, Float64]
"""What a network would give in exact arithmetic, and the bound of its rounding."""
Step = Callable[["Computation", Float64, Float64], Answer]
"""What else is done to values with errors: x before W1, a branch, the hidden layer before W2, y in the end."""


@dataclass(frozen=True)
class Computation:
    """One network on one input: the arrays, the activation, and what else is done on the way."""

    x: Float64
    W1: Float64
    b1: Float64 | None
    W2: Float64
    b2: Float64 | None
    V: Float64 | None
    c: Float64 | None
    activation: Any
    dtype: str
    before: tuple[Step, ...] = ()
    gate: tuple[Step, ...] = ()
    linear: tuple[Step, ...] = ()
    between: tuple[Step, ...] = ()
    after: tuple[Step, ...] = ()

    @property
    def unit(self) -> float:
        """The unit roundoff, and that of float64, which is computed in."""
        return float(2.0 ** -FLOATING[self.dtype].bits + 2.0**-53)

    @property
    def largest(self) -> float:
        """The largest finite number of the dtype."""
        return float(FLOATING[self.dtype].largest)

    def also(self, place: str, *steps: Step) -> "Computation":
        """The network with more done at one of its places."""
        changed: dict[str, Any] = {place: (*getattr(self, place), *steps)}
        return replace(self, **changed)

    def having(self, **arrays: Float64 | None) -> "Computation":
        """The network with other arrays."""
        changed: dict[str, Any] = dict(arrays)
        return replace(self, **changed)

    def answer(self) -> Answer:
        """The output and its bound; infinite where something on the way to it overflows."""
        with np.errstate(all="ignore"):
            x, error = _through(self, self.before, self.x, np.zeros_like(self.x))
            g, lost = self._affine(x, error, self.W1, self.b1, self.gate)
            u: tuple[Float64, Float64] | None = None
            if self.V is not None:
                u, more = self._affine(x, error, self.V, self.c, self.linear)
                lost = lost | more
            h, moved = self._activated(g, u)
            # A formula that gives NaN of numbers in range does so for sure.
            sure = np.isnan(h).any(axis=-1, keepdims=True) & ~lost
            h, moved = _through(self, self.between, h, moved)
            lost = lost | (np.abs(h) + moved > self.largest).any(axis=-1, keepdims=True)
            (y, bound), more = self._affine(h, moved, self.W2, self.b2, self.after)
            finite = np.isfinite(self.x).all(axis=-1, keepdims=True)
            over = np.isfinite(y) & ~(np.abs(y) + bound <= self.largest)
            bound = np.where(((lost | more) & finite) | (over & finite), np.inf, bound)
            return y, np.where(sure & finite & np.isnan(y), 0.0, np.where(np.isnan(bound), np.inf, bound))

    def _affine(
        self, x: Float64, error: Float64, W: Float64, b: Float64 | None, steps: tuple[Step, ...]
    ) -> tuple[Answer, Any]:
        """The affine map x W + b with its error, where it overflows, and what comes after it."""
        tiny = FLOATING[self.dtype].underflow
        size = (np.abs(x) + error) @ np.abs(W)
        y, n = x @ W, W.shape[0]
        if b is not None:
            y, size, n = y + b, size + np.abs(b), n + 1
        moved = error @ np.abs(W) + self.unit * growth(n) * size + np.where(size > 0.0, n * tiny, 0.0)
        lost = ~(size + moved <= self.largest) & np.isfinite(x).all(axis=-1, keepdims=True)
        return _through(self, steps, y, moved), lost.any(axis=-1, keepdims=True)

    def _activated(self, g: Answer, u: Answer | None) -> Answer:
        """The hidden layer."""
        if hasattr(self.activation, "gate"):
            assert u is not None
            return self._gated(g, u)
        act, relative, absolute = elementwise(self.activation)
        (v, e), size = g, np.abs(g[0])
        value = act(v)
        moved = np.fmax(np.abs(act(v + e) - value), np.abs(act(v - e) - value))
        tiny = FLOATING[self.dtype].underflow
        # What evaluating it loses; the slope's share is its move by one rounding of v.
        slope = np.abs(act(v * (1.0 + self.unit)) - value) if relative else 0.0
        # An activation whose values have an end far out gives 0 times infinity no sooner than the others.
        lost = np.where(np.isfinite(v), absolute * size, 0.0)
        moved = np.where(np.isnan(moved), 0.0, moved)
        error = moved + self.unit * (relative * np.abs(value) + lost) + slope
        error = error + (tiny * (1.0 + size) if relative else 0.0)
        if u is None:
            return value, error
        y = value * u[0]
        error = np.abs(value) * u[1] + np.abs(u[0]) * error + error * u[1] + self.unit * np.abs(y) + tiny
        return y, np.where(np.isnan(error), 0.0, error)

    def _gated(self, g: Answer, u: Answer) -> Answer:
        """What a gate object makes of both branches."""
        value = np.asarray(self.activation.gate(g[0], u[0]), dtype=np.float64)
        moved = np.zeros_like(value)
        for one in (-1.0, 0.0, 1.0):
            for other in (-1.0, 0.0, 1.0):
                there = np.asarray(self.activation.gate(g[0] + one * g[1], u[0] + other * u[1]), dtype=np.float64)
                moved = np.fmax(moved, np.abs(there - value))
        loss = self.unit * (5.0 * np.abs(value) + np.abs(g[0] * u[0])) + FLOATING[self.dtype].underflow
        return value, moved + loss


def elementwise(activation: Any) -> tuple[Callable[[Float64], Float64], float, float]:
    """An activation on float64 arrays, and what it may lose relative to its value and to its argument."""
    if isinstance(activation, str):
        row = FORMULAS[activation]
        return ACTIVATIONS[activation], row.relative, row.lost if row.power == 1 else 0.0
    return (lambda h: np.asarray(activation(h), dtype=np.float64)), 6.0, 4.0


def _through(of: Computation, steps: tuple[Step, ...], value: Float64, error: Float64) -> Answer:
    """Values with their errors through some steps."""
    for step in steps:
        value, error = step(of, value, error)
    return value, error
