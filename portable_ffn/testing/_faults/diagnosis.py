"""From all calls of a network in one dtype to what is wrong with it, told only where nothing speaks against it.

A cause explains every call that fails, each within a finite bound, and contradicts none that passes. Where several
are left, an input is made on which they differ most, and the network is asked; what then is left is named, and a lone
cause has to foretell such answers too.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np

from portable_ffn.testing._faults import arithmetic
from portable_ffn.testing._faults.candidates import Candidate, Gathered, fitted, standing
from portable_ffn.testing._faults.failure import Evidence, apart
from portable_ffn.testing._faults.row import Fault, Meant
from portable_ffn.testing._faults.table import families, faults, pairs

SMALL = 1 << 16  # numbers in W1, beyond which faults are not tried two at a time
MOST = 12  # candidates that are told apart
ASKED = 6  # inputs made for that
NAMED = 3  # causes that nothing tells apart


class Questions(Protocol):
    """Inputs that a network can be asked on."""

    names: tuple[str, ...]

    def made(self, name: str) -> Evidence:
        """What is meant on an input, with nothing that came."""
        ...

    def asked(self, name: str) -> Evidence | None:
        """The network's answer to it; None where it raises."""
        ...


class Diagnosis(NamedTuple):
    """What is wrong: the causes, each enough, or none; and in words, what was tried and what comes nearest."""

    causes: tuple[str, ...] = ()
    note: str = ""
    found: tuple[Fault, ...] = ()


def diagnose(
    calls: Iterable[Evidence],
    meant: Meant,
    questions: Questions | None = None,
    known: Iterable[Fault] = (),
    *,
    search: bool = True,
) -> Diagnosis:
    """What is wrong with the network that gave these answers.

    `known` are the causes of its failures elsewhere: where one of them holds here too, nothing else is tried.
    Without `search` none but these are, and those of the arithmetic.
    """
    gathered = Gathered(calls)
    if not gathered.failed:
        return Diagnosis()
    told = arithmetic.another_dtype([*gathered.failed, *gathered.passed])
    if told:
        return Diagnosis((told,))
    talk = _Talk(gathered, questions)
    tried, left = 0, talk.confirmed(standing(known, gathered, proven=True))
    if not left and search:
        singles, numbers = faults(meant), families(meant)
        tried = len(singles) + len(numbers)
        left = talk.told_apart(_different([*standing(singles, gathered), *fitted(numbers, gathered)], gathered))
        if not left and gathered.lead.weights.W1.size <= SMALL and not gathered.contradictory:
            both = list(pairs(singles))
            tried += len(both)
            left = talk.told_apart(_different(standing(both, gathered), gathered))
    if left:
        least = min(one.fault.rank for one in left)
        found = tuple(one.fault for one in left if one.fault.rank == least)[:NAMED]
        return Diagnosis(tuple(dict.fromkeys(fault.says for fault in found)), "", found)
    return _arithmetic(gathered) or Diagnosis((), _nothing(gathered, meant, tried))


def _arithmetic(gathered: Gathered) -> Diagnosis | None:
    """What only has a pattern."""
    found = arithmetic.patterns([*gathered.failed, *gathered.passed])
    if found:
        best = found[0][0]
        return Diagnosis(tuple(says for alike, says in found if alike > best - 0.02)[:2])
    if arithmetic.permuted(gathered.failed):
        return Diagnosis(("rows permuted",))
    return None


class _Talk:
    """The questions that a network is asked, each once."""

    def __init__(self, gathered: Gathered, questions: Questions | None) -> None:
        self.gathered, self.questions = gathered, questions
        self.names = [] if questions is None else list(questions.names)

    def told_apart(self, left: list[Candidate]) -> list[Candidate]:
        """What is left of some candidates after the inputs on which they differ most; a lone one foretells two."""
        asked = 0
        while left and self.names and asked < ASKED and (len(left) > 1 or asked < 2):
            name = self._telling(left[:MOST])
            if not name:
                break
            left = self._asked(name, left)
            asked += 1
        return left

    def confirmed(self, left: list[Candidate]) -> list[Candidate]:
        """What is left of causes that were proven elsewhere after one more call."""
        return self._asked(self.names[0], left, proven=True) if left and self.names else left

    def _asked(self, name: str, left: list[Candidate], *, proven: bool = False) -> list[Candidate]:
        """What is left after a call."""
        assert self.questions is not None
        self.names.remove(name)
        came = self.questions.asked(name)
        if came is None:
            return left
        self.gathered.add(came)
        return standing([one.fault for one in left], self.gathered, proven=proven)

    def _telling(self, left: list[Candidate]) -> str:
        """The input on which most candidates differ, a lone one from what is meant; "" where none tells."""
        assert self.questions is not None
        best, by = "", 0
        for name in self.names:
            made = self.questions.made(name)
            answers = [one.fault.change(made.meant).answer() for one in left]
            if len(left) == 1:
                answers.append((made.expected, made.bound))
            different = sum(apart(one, other) > 1.0 for n, one in enumerate(answers) for other in answers[:n])
            if different > by:
                best, by = name, different
        return best


def _different(left: list[Candidate], gathered: Gathered) -> list[Candidate]:
    """Simple candidates first; a less simple one, or the same two faults in turn, that is alike is left out."""
    kept: list[Candidate] = []
    for one in sorted(left, key=lambda candidate: (candidate.fault.rank, candidate.worst)):
        if not any(
            one.fault.rank + (one.fault.rank > 1) > other.fault.rank and _alike(one, other, gathered) for other in kept
        ):
            kept.append(one)
    return kept


def _alike(one: Candidate, other: Candidate, gathered: Gathered) -> bool:
    """Whether two candidates give the same where the network fails."""
    return all(
        apart(one.fault.change(call.meant).answer(), other.fault.change(call.meant).answer()) <= 0.5
        for call in gathered.failed[:6]
    )


def _nothing(gathered: Gathered, meant: Meant, tried: int) -> str:
    """In words, that nothing explains it, and what comes nearest."""
    failed = gathered.failed
    best, most, off = None, -1, float("inf")
    for fault in faults(meant):
        count, worst = gathered.explained(fault)
        if (count, -worst) > (most, -off):
            best, most, off = fault, count, worst
    if not tried:
        return "none of the known faults explains it, here or in a wider dtype"
    told = f"none of the {tried} known faults explains it"
    if best is None or not np.isfinite(off):
        return told
    if most > 0:
        return f"{told}; the nearest is {best.says}, which explains {most} of {len(failed)}"
    return f"{told}; the nearest is {best.says}, {off:.3g} times the bound off"
