"""Faults that may be the cause: what speaks for each and against it."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from portable_ffn.testing._backends.arrays import Float64
from portable_ffn.testing._faults.computation import Answer
from portable_ffn.testing._faults.failure import Evidence, Fit, fit
from portable_ffn.testing._faults.row import Family, Fault


class Candidate(NamedTuple):
    """A fault that nothing speaks against, and its worst error."""

    fault: Fault
    worst: float


class Gathered:
    """The calls of one network: those that fail, and those that pass."""

    def __init__(self, calls: Iterable[Evidence]) -> None:
        self.failed: list[Evidence] = []
        self.passed: list[Evidence] = []
        self.first: Evidence | None = None
        for call in calls:
            self.add(call)

    def add(self, call: Evidence) -> None:
        """One more call."""
        if call.got is None or not call.got.size:
            return
        (self.failed if _tells(call) else self.passed).append(call)
        self.failed.sort(key=_size)
        self.passed.sort(key=_size)
        # The call that is tried first: one that fails in many values, and is small.
        full = [one for one in self.failed if one.outside.mean() > 0.2 and one.outside.sum() >= 16]
        self.first = next(iter(full or self.failed), None)

    @property
    def lead(self) -> Evidence:
        """The call that is tried first."""
        assert self.first is not None
        return self.first

    @property
    def contradictory(self) -> bool:
        """Whether most calls are right, so that no fault of the formula can be everywhere."""
        return len(self.passed) > 4 * len(self.failed)

    def explained(self, fault: Fault) -> tuple[int, float]:
        """How many calls that fail a fault explains, and by how much it misses the lead."""
        count = 0
        for call in [one for one in self.failed if _size(one) <= 1 << 14][:20]:
            found = fit(call, _answer(fault, call))
            count += found.explains
        return count, fit(self.lead, _answer(fault, self.lead)).worst


def _tells(call: Evidence) -> bool:
    """Whether it fails where x is finite: what comes of NaN and infinities is told apart from the formula."""
    return bool((call.outside & np.isfinite(call.x).all(axis=-1, keepdims=True)).any())


def _size(call: Evidence) -> int:
    """What it costs to compute."""
    return math.prod(call.x.shape[:-1]) * int(call.weights.W1.size) + int(call.weights.W1.size)


def _answer(fault: Fault, call: Evidence) -> Answer:
    """What a fault gives on the input of a call."""
    with np.errstate(all="ignore"):
        return fault.change(call.meant).answer()


def standing(some: Iterable[Fault], gathered: Gathered, *, proven: bool = False) -> list[Candidate]:
    """Those that explain every call that fails, as far as their bound is finite, and contradict none that passes.

    A fault that was `proven` on the same network in a wider dtype has to agree alone: its bound may be loose here.
    """
    lead = gathered.lead
    others = [call for call in gathered.failed if call is not lead]
    found = []
    for fault in some:
        slack = fault.slack
        first = fit(lead, _answer(fault, lead), slack)
        if not (first.explains or (proven and first.agrees)):
            continue
        fits: list[Fit] = [first]
        for call in others:
            fits.append(fit(call, _answer(fault, call), slack))
            if not (fits[-1].explains or fits[-1].silent):
                break
        else:
            enough = 2 * sum(one.explains for one in fits) >= len(fits)
            if (enough or proven) and all(fit(call, _answer(fault, call), slack).agrees for call in gathered.passed):
                found.append(Candidate(fault, max(one.worst for one in fits)))
    return found


def fitted(families: Iterable[Family], gathered: Gathered) -> list[Candidate]:
    """The faults with a number that stand, each with the simplest number that does."""
    lead = gathered.lead
    found: list[Candidate] = []
    for family in families:
        number = _fit(family, lead)
        if number is None:
            continue
        for simple in _simpler(number):
            if family.nothing is not None and abs(simple - family.nothing) <= 1e-9 * max(1.0, abs(family.nothing)):
                continue
            one = standing([family.fault(simple, 1.0 if simple != number else 2.0)], gathered)
            if one:
                found += one
                break
    return found


def _simpler(number: float) -> list[float]:
    """A number with few digits first, as long as it is near, and itself."""
    short = [0.0] * (abs(number) < 1e-9) + [float(f"{number:.{digits}g}") for digits in range(1, 9)]
    return [*dict.fromkeys(one for one in short if abs(one - number) <= max(0.02 * abs(number), 1e-9)), number]


def _fit(family: Family, call: Evidence) -> float | None:
    """The number with which a family of faults comes nearest to an answer: the best of its starts, then Newton."""
    assert call.got is not None
    got = call.got
    with np.errstate(all="ignore"):

        def rest(t: float) -> Float64:
            y, bound = family.change(call.meant, t).answer()
            if y.shape != got.shape:
                return np.full(1, np.inf)
            usable = np.isfinite(got) & np.isfinite(bound)
            r: Float64 = np.where(usable, (y - got) / np.maximum(call.bound, 1e-300), 0.0)
            return np.where(np.isfinite(r), r, 1e300)

        def miss(r: Float64) -> float:
            return float(np.sum(np.log1p(np.abs(r))))

        tried = [(miss(rest(t)), t) for t in family.starts]
        least, t = min(tried)
        for _ in range(12):
            r, step = rest(t), 1e-6 * max(abs(t), 1e-3)
            slope = (rest(t + step) - rest(t - step)) / (2.0 * step)
            square = float(np.sum(slope * slope))
            if not np.isfinite(square) or square == 0.0:
                return None
            moved = -float(np.sum(slope * r)) / square
            there = t + moved
            after = miss(rest(there))
            if not after < least:
                break
            t, least = there, after
            if abs(moved) <= 1e-15 * abs(t):
                break
    return t if np.isfinite(t) else None
