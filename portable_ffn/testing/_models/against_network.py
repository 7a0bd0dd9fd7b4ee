"""A layer of one checkpoint against a layer of another, both computed exactly: what differs stands in the files."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from portable_ffn import Weights, oracle
from portable_ffn._arrays.dtype import REAL_FLOATING
from portable_ffn.testing._backends.arrays import Float64, held
from portable_ffn.testing._faults.diagnosis import diagnose
from portable_ffn.testing._faults.failure import Evidence
from portable_ffn.testing._faults.row import meant_by
from portable_ffn.testing._inputs.build import Inputs
from portable_ffn.testing._measure.bound import bounded, dtype_of, plain
from portable_ffn.testing._measure.compare import compare
from portable_ffn.testing._measure.example import smallest
from portable_ffn.testing._models.layer import Layer, measured
from portable_ffn.testing._models.unequal import around, unequal


def against_network(
    record: Layer, a: Any, b: Any, x: Float64, dtype: str | None, explains: Callable[[Weights], bool]
) -> Layer:
    """The record of two networks of checkpoints, in units of the rounding of the coarser of their dtypes."""
    dtype = dtype or min(map(dtype_of, (a.weights, b.weights)), key=REAL_FLOATING.index)
    a, b = (network.to(dtype="float64") for network in (a, b))
    differing = tuple(unequal(a.weights, b.weights, dtype))
    known = tuple(around(a, b))
    facts = (*known, *(one.says for one in differing))
    record = replace(record, dtype=dtype, unequal=differing)
    if a.weights.d_model != b.weights.d_model or a.weights.W2.shape[1] != b.weights.W2.shape[1]:
        message = "inputs and outputs must be as wide as A's to be compared"
        infinite = float("inf")
        return replace(record, status="fail", worst=infinite, median=infinite, message=message, facts=facts)
    x = held(x, dtype)
    expected, bound = bounded(a, x, dtype)
    found = compare(b(x), x, expected, bound, dtype="float64")
    record = measured(record, found, expected, bound)
    hidden = _hidden(record, a, b, x, dtype)
    if hidden is not None and hidden.worst > 1.0 >= record.worst:
        return replace(hidden, facts=facts, message=f"in the hidden layer {hidden.message}")
    if record.status == "pass":
        return replace(record, message=_told(a, b, facts, dtype))
    # What the files say needs no guess.
    causes = _formula(a, b, x, dtype) if not known and explains(a.weights) else ()
    example = smallest(Inputs(x, a.weights), found, expected, bound, lambda few: b(few.x))
    return replace(record, causes=causes, facts=facts, example=example)


def _told(a: Any, b: Any, facts: tuple[str, ...], dtype: str) -> str:
    """How alike two networks are that agree."""
    if facts:
        return f"within the rounding of {dtype}, though {'; '.join(facts)}"
    weights = zip(a.weights, b.weights, strict=True)
    same = all(np.array_equal(mine, other, equal_nan=True) for mine, other in weights if mine is not None)
    return "equal" if same else f"equal as {dtype} holds them"


def _hidden(record: Layer, a: Any, b: Any, x: Float64, dtype: str) -> Layer | None:
    """The hidden layers, where they are the same units with another activation: there it shows at any size."""
    if a.activation == b.activation or any(one.weight in ("W1", "b1", "V", "c") for one in record.unequal):
        return None
    w, inner = a.weights, x if a.before is None else a.before(x)
    expected, bound = oracle.hidden(inner, w.W1, w.b1, w.V, w.c, activation=a.activation, dtype=dtype)
    return measured(record, compare(b.hidden(x), x, expected, bound, dtype="float64"), expected, bound)


def _formula(a: Any, b: Any, x: Float64, dtype: str) -> tuple[str, ...]:
    """The fault of the formula that makes B's output of A's weights, where the table has it."""
    if a.middle is not None or b.middle is not None:
        return ()
    inner_a, inner_b = (x if network.before is None else network.before(x) for network in (a, b))
    expected, bound = bounded(plain(a), inner_a, dtype)
    came = plain(b)(inner_b)
    call = Evidence(inner_a, a.weights, a.activation, dtype, dtype, came, expected, bound)
    return diagnose([call], meant_by(a.activation, a.weights)).causes
