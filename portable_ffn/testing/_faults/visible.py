"""What a check can see: how far each fault of the table of causes moves the answers, in units of the bound.

A fault that moves no answer of the cases by twice the bound can hide in the rounding of the dtype, and the report says
so. The effects are those of exact arithmetic, for which float64 stands.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from portable_ffn import oracle
from portable_ffn._arrays.dtype import REAL_FLOATING
from portable_ffn._arrays.typing import Activation
from portable_ffn.testing._backends.arrays import Float64, held
from portable_ffn.testing._faults import arithmetic
from portable_ffn.testing._faults.failure import Exact, Failure
from portable_ffn.testing._faults.table import FORMULA
from portable_ffn.testing._inputs.cases import CASES, chosen
from portable_ffn.testing._measure.compare import shares

SURELY = 2.0
"""A fault is seen where its effect exceeds twice the bound: rounding may take one of the two back."""


class Network(NamedTuple):
    """A network that a check ran: all that decides which faults it could see."""

    activation: Activation
    name: str
    gated: bool
    taken: frozenset[str]
    d_model: int
    d_ff: int
    seed: int
    cases: tuple[str, ...]
    dtypes: tuple[str, ...]


class Visibility(NamedTuple):
    """What the cases of a check show of one network in one dtype: each fault's largest effect over the bound."""

    activation: str
    gated: bool
    bias: bool
    dtype: str
    effects: dict[str, float]

    @property
    def unseen(self) -> tuple[str, ...]:
        """The faults that can't be seen."""
        return tuple(fault for fault, effect in self.effects.items() if effect <= SURELY)


def visible(networks: Iterable[Network]) -> tuple[Visibility, ...]:
    """The effects of all faults of the table, for each network in each of its dtypes."""
    return tuple(
        Visibility(network.name, network.gated, bool({"b1", "b2", "c"} & network.taken), dtype, effects(network, dtype))
        for network in networks
        for dtype in REAL_FLOATING[::-1]
        if dtype in network.dtypes
    )


def effects(network: Network, dtype: str) -> dict[str, float]:
    """Each fault's largest effect on the cases, in units of the bound of one dtype."""
    found: dict[str, float] = {}
    for case in chosen(network.cases):
        inputs = case.inputs(network.seed, network.d_model, network.d_ff, network.taken, dtype)
        y, bound = oracle.feed_forward(inputs.x, *inputs.weights, activation=network.activation, dtype=dtype)
        # Rows turned round stand for a permutation, which the table finds in what came.
        turned = y[::-1] if y.ndim > 1 else y
        failure = Exact(inputs.x, inputs.weights, network.activation, dtype, dtype, turned, y, bound, case.name)
        with np.errstate(all="ignore"):
            for fault, answer in _answers(failure, found):
                moved = float(np.max(shares(answer, y, bound), initial=0.0)) if answer.shape == y.shape else np.inf
                found[fault] = max(found.get(fault, 0.0), moved)
    return found


def _answers(f: Failure, found: dict[str, float]) -> Iterator[tuple[str, Float64]]:
    """What each fault gives; a slow one no longer where it has been seen."""
    for formula in FORMULA:
        for fault, (y, _) in formula(f):
            yield fault, y
    if f.x.size == 0:
        return
    for name in REAL_FLOATING[: REAL_FLOATING.index(f.dtype)]:
        if (f.dtype, name) != ("float16", "bfloat16"):  # neither of the halves holds the other
            yield f"{f.dtype} served as {name}", held(f.expected, name)
    yield from arithmetic.coarse_answers(f)
    yield "everything scaled by 1.01", 1.01 * f.expected
    yield "NaN hidden", np.where(np.isnan(f.expected), 0.0, f.expected)
    for name in arithmetic.narrower_sums(f.dtype):
        fault = f"sums kept in {name}"
        if found.get(fault, 0.0) <= SURELY:
            yield fault, arithmetic.narrow(f, name)


def told(networks: Iterable[Network], at_most: int = 3) -> list[str]:
    """What can't be seen, a line for each network and dtype.

    Many networks that were run on a few cases are told in one line, whatever they hide: there it is the cases that
    were left out, more than the rounding, that hide it, and a count of that would say nothing of the networks.
    """
    networks = tuple(networks)
    few = [network for network in networks if len(network.cases) < len(CASES)]
    few = few if len(few) > at_most else []
    lines = [
        f"can't be seen in {one.dtype}, {one.activation}{', gated' if one.gated else ''}: {'; '.join(one.unseen)}"
        for one in visible(network for network in networks if network not in few)
        if one.unseen
    ]
    if few:
        cases = dict.fromkeys(case for network in few for case in network.cases)
        lines.append(
            f"{len(few)} of {len(networks)} networks were run on {len(cases)} of {len(CASES)} cases "
            f"({', '.join(cases)}): "
            "faults that these don't show, for want of cases or below the rounding, are named in the JSON"
        )
    return lines
