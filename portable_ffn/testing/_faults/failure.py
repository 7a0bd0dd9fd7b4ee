"""What came of one call beside what was meant: the evidence for a cause and against it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from portable_ffn._arrays.typing import Activation
from portable_ffn._network.weights import Weights
from portable_ffn.oracle._numbers import FLOATING
from portable_ffn.testing._backends.arrays import Float64
from portable_ffn.testing._faults.computation import Answer, Computation
from portable_ffn.testing._measure.compare import shares


@dataclass(frozen=True, eq=False)
class Evidence:
    """One call of a network, within the bound or not.

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
    case: str = ""

    @property
    def rounding(self) -> str:
        """The dtype whose rounding the answer shows: the coarser of what was given and what came."""
        if self.came not in FLOATING:
            return self.dtype
        return min(self.dtype, self.came, key=lambda name: FLOATING[name].bits)

    @cached_property
    def meant(self) -> Computation:
        """The network that is meant, on this input."""
        return Computation(self.x, *self.weights, self.activation, self.rounding)

    @cached_property
    def outside(self) -> Any:
        """Where the answer is outside the bound."""
        assert self.got is not None
        return shares(self.got, self.expected, self.bound) > 1.0

    @cached_property
    def fails(self) -> bool:
        """Whether some value is outside the bound."""
        return self.got is not None and bool(self.outside.any())


class Fit(NamedTuple):
    """How a candidate stands to one call: whether it can be true, whether it explains a failure, and how far off it is.

    `explains` needs a finite bound that is tighter than what is explained; a `silent` candidate agrees by a bound that
    is infinite or looser than the error, so that it says nothing of it.
    """

    agrees: bool
    explains: bool
    silent: bool
    worst: float


def fit(evidence: Evidence, answer: Answer, slack: float = 1.0) -> Fit:
    """A candidate's answer beside the one that came."""
    y, bound = answer
    got = evidence.got
    if got is None or y.shape != got.shape:
        return Fit(False, False, False, float("inf"))
    share = shares(got, y, slack * bound)
    # From an x that is not finite each formula has its own NaN and infinities, and so have overflows.
    wild = np.broadcast_to(~np.isfinite(evidence.x).all(axis=-1, keepdims=True), got.shape)
    share = np.where(wild | (~np.isfinite(got) & ~np.isfinite(y)), 0.0, share)
    # An infinite bound allows anything but a number where a candidate is far beyond all numbers of the dtype.
    largest = FLOATING[evidence.rounding].largest
    with np.errstate(all="ignore"):
        beyond = np.isinf(bound) & np.isfinite(got) & (np.abs(y) > 4.0 * largest) & ~wild
    share = np.where(beyond, np.inf, share)
    worst = float(np.max(share, initial=0.0))
    outside = evidence.outside & ~wild
    if not outside.any():
        return Fit(worst <= 1.0, False, False, worst)
    tight = outside & np.isfinite(bound)
    with np.errstate(all="ignore"):
        moved = np.abs(got - evidence.expected)
        sharp = tight & (~(slack * bound >= moved))
    explains = worst <= 1.0 and bool(sharp.any())
    return Fit(worst <= 1.0, explains, worst <= 1.0 and not explains, worst)


def apart(one: Answer, other: Answer) -> float:
    """How far two candidates are from each other, in units of what rounding may do to both."""
    (y, e), (z, d) = one, other
    if y.shape != z.shape:
        return float("inf")
    with np.errstate(all="ignore"):
        share = np.where((y == z) | (np.isnan(y) & np.isnan(z)), 0.0, np.abs(y - z) / (e + d))
    share = np.where(np.isinf(e) | np.isinf(d), 0.0, share)
    return float(np.max(np.where(np.isnan(share), np.inf, share), initial=0.0))
