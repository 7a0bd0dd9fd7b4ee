"""The inputs of a check: one literal table, a row each, chosen to reach what goes wrong.

A row builds float64 numbers from a seeded generator; what a dtype cannot hold is rounded before anybody sees it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from portable_ffn._network.weights import Weights
from portable_ffn.testing._backends.arrays import held
from portable_ffn.testing._inputs.build import (
    Inputs,
    Wanted,
    biases_alone,
    curve,
    long_first_sum,
    long_second_sum,
    near_overflow,
    ordinary,
    sized,
    tails,
    tiny,
    with_one,
)


@dataclass(frozen=True, slots=True)
class Case:
    """One row: its name, its numbers, and how the arrays lie in memory.

    `transposed` weights are views of their transposes, `strided` arrays are every second column of wider ones,
    `reversed` ones run backwards, `sliced` ones start in the middle of others and at an odd address, `shared` ones are
    of which others hold views, and `read_only` ones can't be written to: each where the library knows such. `first`
    cases are enough for a backend that compiles at each new shape; a `once` case is run in one dtype of a place.
    """

    name: str
    build: Callable[[Wanted], Inputs]
    transposed: bool = False
    strided: bool = False
    read_only: bool = False
    reversed: bool = False
    sliced: bool = False
    shared: bool = False
    first: bool = False
    once: bool = False

    def inputs(self, seed: int, d_model: int, d_ff: int, taken: frozenset[str], dtype: str) -> Inputs:
        """The numbers, with only the arrays in `taken` (b1, b2, V, c) beside x, W1 and W2."""
        # A generator for each case, so that one case alone has the numbers that it has among the others.
        random = np.random.default_rng([seed, *self.name.encode()])
        wanted = Wanted(random, d_model, d_ff, "V" in taken, bool({"b1", "b2", "c"} & taken), dtype)
        x, weights = self.build(wanted)
        kept = {
            name: held(array, dtype)
            for name, array in weights._asdict().items()
            if name in ("W1", "W2") or name in taken
        }
        return Inputs(held(x, dtype), Weights(**{"b1": None, "b2": None, **kept}))


CASES: tuple[Case, ...] = (
    Case("curve", curve, first=True),
    Case("ordinary", lambda wanted: ordinary(wanted, 5), first=True),
    Case("tails", tails),
    Case("biases alone", biases_alone),
    Case("large", lambda wanted: ordinary(wanted, 5, scale=100.0)),
    Case("small", lambda wanted: ordinary(wanted, 5, scale=1e-3)),
    Case("tiny outputs", tiny),
    Case("near overflow", near_overflow),
    Case("a NaN", with_one(np.nan)),
    Case("an infinity", with_one(np.inf)),
    Case("no positions", lambda wanted: ordinary(wanted, 0)),
    Case("an empty axis", lambda wanted: ordinary(wanted, 2, 0)),
    Case("one axis", lambda wanted: ordinary(wanted)),
    Case("three leading axes", lambda wanted: ordinary(wanted, 2, 1, 3)),
    Case("transposed weights", lambda wanted: ordinary(wanted, 5), transposed=True),
    Case("strided arrays", lambda wanted: ordinary(wanted, 5), strided=True),
    Case("read-only", lambda wanted: ordinary(wanted, 5), read_only=True),
    Case("square", sized(12, 12, 5)),
    Case("odd sizes", sized(7, 13, 3)),
    Case("single numbers", sized(1, 1)),
    Case("reversed weights", lambda wanted: ordinary(wanted, 5), reversed=True),
    Case("sliced arrays", lambda wanted: ordinary(wanted, 5), sliced=True),
    Case("shared arrays", lambda wanted: ordinary(wanted, 5), shared=True),
    Case("four leading axes", sized(5, 6, 2, 3, 2, 4)),
    Case("7 rows, 64 by 33", sized(64, 33, 7)),
    Case("33 rows, 70 by 128", sized(70, 128, 33), once=True),
    Case("1 row, 129 by 200", sized(129, 200, 1), once=True),
    Case("2 rows, 1040 by 129", sized(1040, 129, 2), once=True),
    Case("2 rows, 16 by 1040", sized(16, 1040, 2), once=True),
    Case("300 rows, 8 by 70", sized(8, 70, 300), once=True),
    Case("1031 rows, 33 by 16", sized(33, 16, 1031), once=True),
    Case("a long first sum", long_first_sum),
    Case("a long second sum", long_second_sum),
)


def chosen(names: Iterable[str] | None) -> tuple[Case, ...]:
    """The cases of these names."""
    if names is None:
        return CASES
    asked = [names] if isinstance(names, str) else list(names)
    known = [case.name for case in CASES]
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise ValueError(f"cases must be of {', '.join(known)}; got {', '.join(unknown)}")
    return tuple(case for case in CASES if case.name in asked)


def batch(rows: int) -> Case:
    """A case of so many rows, for what is wrong in large batches alone."""
    return Case(f"{rows} rows", sized(8, 32, rows), once=True)


def due(case: Case, slow: bool, dtype: str, dtypes: tuple[str, ...]) -> bool:
    """Whether a case is run in one of the dtypes of a place: a `once` case in float32, or the first there is."""
    one = "float32" if "float32" in dtypes else dtypes[0]
    return (case.first or not slow) and (not case.once or dtype == one)
