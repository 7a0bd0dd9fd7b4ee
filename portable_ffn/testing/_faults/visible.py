"""What a check can see: how far each fault of the table of causes moves the answers, in units of the bound.

A fault that moves no answer of the cases by twice the bound can hide in the rounding of the dtype, and the report says
so. The effects are those of exact arithmetic, for which float64 stands.
"""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from portable_ffn import oracle
from portable_ffn._arrays.dtype import REAL_FLOATING
from portable_ffn._arrays.typing import Activation
from portable_ffn.testing._backends.arrays import Float64, held
from portable_ffn.testing._faults.arithmetic import simulations
from portable_ffn.testing._faults.failure import Evidence
from portable_ffn.testing._faults.row import Fault, meant_with
from portable_ffn.testing._faults.table import faults
from portable_ffn.testing._inputs.build import Inputs
from portable_ffn.testing._inputs.cases import CASES, chosen
from portable_ffn.testing._measure.compare import shares

SURELY = 2.0
"""A fault is seen where its effect exceeds twice the bound: rounding may take one of the two back."""


NOTHING = 1e-3
"""Up to here a fault has no effect: its numbers lie in another order in memory, and sums of them round otherwise."""
LARGE = 1 << 14
"""Products of an input from which on only what has shown nowhere is tried."""


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
    """What the cases of a check show of one network in one dtype: each fault's largest effect over the bound.

    `elsewhere` has the effects, on the cases that were not run, of the faults that don't show on those that were.
    """

    activation: str
    gated: bool
    bias: bool
    dtype: str
    effects: dict[str, float]
    elsewhere: dict[str, float]

    @property
    def unseen(self) -> tuple[str, ...]:
        """The faults that can't be seen."""
        return tuple(fault for fault, effect in self.effects.items() if effect <= SURELY)

    @property
    def wanting(self) -> tuple[str, ...]:
        """Those of them that can't be seen for want of cases; the others are below the rounding."""
        return tuple(fault for fault in self.unseen if self.elsewhere.get(fault, 0.0) > SURELY)


def visible(networks: Iterable[Network]) -> tuple[Visibility, ...]:
    """The effects of all faults of the table, for each network in each of its dtypes."""
    return tuple(
        _visibility(network, dtype) for network in networks for dtype in REAL_FLOATING[::-1] if dtype in network.dtypes
    )


def _visibility(network: Network, dtype: str) -> Visibility:
    """What is seen of one network in one dtype.

    What makes no difference on any case, run or not, is no fault of this network, as relu twice is none.
    """
    seen = effects(network, dtype)
    untouched = {fault for fault, effect in seen.items() if effect <= NOTHING}
    others = tuple(case.name for case in CASES if case.name not in network.cases)
    elsewhere = effects(network._replace(cases=others), dtype, untouched) if untouched and others else {}
    real = {fault: effect for fault, effect in seen.items() if max(effect, elsewhere.get(fault, 0.0)) > NOTHING}
    bias = bool({"b1", "b2", "c"} & network.taken)
    return Visibility(network.name, network.gated, bias, dtype, real, elsewhere)


def effects(network: Network, dtype: str, some: Iterable[str] | None = None) -> dict[str, float]:
    """The largest effect of each fault, or of some, on the cases, in units of the bound of one dtype."""
    found: dict[str, float] = {}
    only = None if some is None else set(some)
    rows = faults(meant_with(network.activation, network.gated, network.taken))
    rows = [row for row in rows if only is None or row.says in only]
    # The small cases first: a large one is for what no small one shows.
    given = [
        (c, c.inputs(network.seed, network.d_model, network.d_ff, network.taken, dtype)) for c in chosen(network.cases)
    ]
    # In half precision what has shown at all is left to the rounding; there are too many to try on large ones.
    enough = SURELY if dtype in ("float64", "float32") else NOTHING
    for case, inputs in sorted(given, key=lambda one: _products(one[1])):
        left = [row for row in rows if found.get(row.says, 0.0) <= (enough if _products(inputs) > LARGE else SURELY)]
        if not left and found:
            continue
        y, bound = oracle.feed_forward(inputs.x, *inputs.weights, activation=network.activation, dtype=dtype)
        one = Evidence(inputs.x, inputs.weights, network.activation, dtype, dtype, None, y, bound, case.name)
        with np.errstate(all="ignore"):
            for fault, answer in _answers(one, left, found):
                if only is None or fault in only:
                    found[fault] = max(found.get(fault, 0.0), _moved(answer, y, bound))
    return found


def _products(inputs: Inputs) -> int:
    """What an input costs."""
    return math.prod(inputs.x.shape[:-1]) * int(inputs.weights.W1.size)


def _moved(answer: Float64, y: Float64, bound: Float64) -> float:
    """How far an answer is from the one that is meant, over the bound."""
    return float(np.max(shares(answer, y, bound), initial=0.0)) if answer.shape == y.shape else np.inf


def _answers(one: Evidence, rows: list[Fault], found: dict[str, float]) -> Iterator[tuple[str, Float64]]:
    """What each fault gives; one that changes nothing gives exactly what is meant."""
    meant = one.meant.answer()[0]
    for row in rows:
        y = row.change(one.meant).answer()[0]
        yield row.says, one.expected if np.array_equal(y, meant, equal_nan=True) else y
    if one.x.size == 0 or one.expected.size > 4096:
        return
    for name in REAL_FLOATING[: REAL_FLOATING.index(one.dtype)]:
        if (one.dtype, name) != ("float16", "bfloat16"):  # neither of the halves holds the other
            yield f"{one.dtype} served as {name}", held(one.expected, name)
    yield "everything scaled by 1.01", 1.01 * one.expected
    yield "NaN hidden", np.where(np.isnan(one.expected), 0.0, one.expected)
    # Rows turned round stand for a permutation.
    yield "rows permuted", one.expected[::-1] if one.expected.ndim > 1 else one.expected
    for fault, simulate in simulations(one.dtype):
        if found.get(fault, 0.0) <= SURELY:
            yield fault, simulate(one.meant)


def told(networks: Iterable[Network], at_most: int = 3) -> list[str]:
    """What can't be seen, a line for each network and dtype.

    Many networks that were run on a few cases are told in one line, whatever they hide: there it is the cases that
    were left out, more than the rounding, that hide it, and a count of that would say nothing of the networks.
    """
    networks = tuple(networks)
    few = [network for network in networks if len(network.cases) < len(CASES)]
    few = few if len(few) > at_most else []
    lines = [
        f"can't be seen in {one.dtype}, {one.activation}{', gated' if one.gated else ''}: {_listed(one)}"
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


def _listed(one: Visibility) -> str:
    """The faults that can't be seen, those for want of cases apart, and those of tiles among them as a number."""
    wanting = [fault for fault in one.unseen if fault in one.wanting]
    tiles = [fault for fault in wanting if fault.endswith((" lost", " zero"))]
    below = [fault for fault in one.unseen if fault not in wanting]
    named = [fault for fault in wanting if fault not in tiles]
    if tiles:
        named.append(f"{len(tiles)} faults of tiles and ends")
    told = ["; ".join(below)] if below else []
    return "; ".join([*told, *([f"for want of cases: {'; '.join(named)}"] if named else [])])
