"""What explains a difference: one literal table of hypotheses, tried with the oracle."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from portable_ffn.testing._faults import arithmetic, formula
from portable_ffn.testing._faults.failure import Answer, Failure

__all__ = ["Cause", "Failure", "causes", "explain"]


class Cause(NamedTuple):
    """A fault that explains an answer; `rest` is what it leaves unexplained, 0 for nothing and at most 1."""

    says: str
    rest: float


Formula = Callable[[Failure], Iterator[tuple[str, Answer]]]
Known = dict[Formula, list[tuple[str, Answer]]]
"""What the formulas give for one input and dtype, whoever failed on it."""

FORMULA: tuple[Formula, ...] = (
    formula.another_activation,
    formula.another_clamp,
    formula.another_branch,
    formula.transposed,
    formula.another_bias,
    formula.another_place,
    formula.residual,
    formula.norm_inside,
    formula.another_order,
    formula.truncated,
)
ARITHMETIC: tuple[Callable[[Failure], Iterator[tuple[str, float]]], ...] = (
    arithmetic.another_dtype,
    arithmetic.hidden_nan,
    arithmetic.scaled,
    arithmetic.coarse_products,
    arithmetic.narrow_sums,
)


def causes(failure: Failure, known: Known | None = None) -> list[Cause]:
    """The faults that explain an answer within the bound, best first; those of the arithmetic where no other does."""
    if failure.got is None:
        return []
    with np.errstate(all="ignore"):
        found = [Cause(*told) for kind in ARITHMETIC for told in kind(failure)]
    return sorted(found + formula_causes(failure, known), key=lambda cause: cause.rest)


def formula_causes(failure: Failure, known: Known | None = None) -> list[Cause]:
    """The faults of the formula that explain an answer within the bound, best first.

    `known` is filled with what doesn't depend on the answer, and read from where it is: another library's failure on
    the same input in the same dtype.
    """
    found = []
    with np.errstate(all="ignore"):  # a faulty formula may overflow where the right one does not
        for formula_of in FORMULA:
            for says, answer in _answers(formula_of, failure, known):
                rest = failure.worst(answer)
                if rest <= 1.0 and _matters(failure, answer):
                    found.append(Cause(says, rest))
    return sorted(found, key=lambda cause: cause.rest)


def _answers(formula_of: Formula, failure: Failure, known: Known | None) -> Iterable[tuple[str, Answer]]:
    """What faults of one kind give."""
    if known is None or formula_of is formula.another_order:  # which looks for a permutation of what came
        return formula_of(failure)
    if formula_of not in known:
        known[formula_of] = list(formula_of(failure))
    return known[formula_of]


def _matters(failure: Failure, answer: Answer) -> bool:
    """Whether the faulty answer itself is outside the bound: a fault that makes no difference explains nothing."""
    return failure._replace(got=answer[0]).worst((failure.expected, failure.bound)) > 1.0


def tried(failure: Failure, known: Known) -> str:
    """In words, that nothing in the table explains an answer; "" where there were no values to explain."""
    if failure.got is None:
        return ""
    count = sum(map(len, known.values()))
    return f"{count} known faults of the formula were tried, and those of the arithmetic, and none explains it"


def explain(failure: Failure, known: Known | None = None, at_most: int = 3) -> tuple[str, ...]:
    """The causes in words, best first; none where nothing in the table explains the answer."""
    return tuple(dict.fromkeys(cause.says for cause in causes(failure, known)[:at_most]))
