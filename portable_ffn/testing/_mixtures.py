"""The check of a mixture of experts: anybody's block against the oracle, on every backend, device and dtype."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from portable_ffn import Weights, oracle
from portable_ffn._activations.named import activation_name
from portable_ffn._arrays.dtype import dtype_name
from portable_ffn._arrays.number import whole
from portable_ffn._arrays.typing import Activation
from portable_ffn.experts import Router, Routing
from portable_ffn.testing._backends.select import Place, Selection
from portable_ffn.testing._faults.mixture import Given, explained
from portable_ffn.testing._measure.compare import compare
from portable_ffn.testing._report.report import Report
from portable_ffn.testing._report.rows import Row
from portable_ffn.testing._report.run import run_of

Array = Any


def check_mixture(
    fn: Callable[..., Array],
    selection: Selection,
    routing: Routing | None,
    activation: Activation,
    num_experts: int,
    sizes: tuple[int, int],
    seed: int,
    has: dict[str, bool],
    progress: Callable[[Row], object] | None,
) -> Report:
    """The report of a mixture; TypeError without a routing."""
    if not isinstance(routing, Routing):
        raise TypeError("routing must be given with experts=True: a portable_ffn.experts.Routing")
    name, sizes = activation_name(activation), (whole("d_model", sizes[0], 1), whole("d_ff", sizes[1], 1))
    gated, bias = has["gated"], has["bias"]
    rows = [
        Row(one, "", "", name, gated, bias, "", "error", np.nan, message=f"{one} was asked for, but {reason}")
        for one, reason in selection.missing.items()
    ]
    for place in selection.places:
        for row in _rows(fn, place, routing, activation, num_experts, sizes, seed, has):
            rows.append(row)
            if progress is not None:
                progress(row)
    versions = {place.backend.library: place.backend.version() for place in selection.places}
    facts = {"activation": name, "gated": gated, "bias": bias, "d_model": sizes[0], "d_ff": sizes[1], "seed": seed}
    return Report(tuple(rows), versions, selection.absent, run=run_of(fn, **facts))


def _rows(
    fn: Callable[..., Array],
    place: Place,
    routing: Routing,
    activation: Activation,
    num_experts: int,
    sizes: tuple[int, int],
    seed: int,
    has: dict[str, bool],
) -> Iterator[Row]:
    """A row for each dtype: fn(x, router, experts), with shared and shared_gate behind these if there are."""
    backend = place.backend
    with backend.inside():
        wrapped = backend.wrap(fn)
    for dtype in place.dtypes:
        given = Given(seed, *sizes, num_experts, routing, dtype, **has)
        name = activation_name(activation)
        row = Row(backend.name, place.device, dtype, name, has["gated"], has["bias"], "experts", "pass", np.nan)
        with backend.inside(), np.errstate(all="ignore"):

            def put(array: Array, dtype: str = dtype) -> Array:
                return None if array is None else backend.put(array, dtype, place.device)

            x = put(given.x)
            arguments = [x, Router(*map(put, given.router)), Weights(*map(put, given.experts))]
            if given.shared is not None:
                arguments.append(Weights(*map(put, given.shared)))
            if given.gate is not None:
                arguments.append(put(given.gate))
            expected, bound = oracle.feed_forward_experts(
                given.x,
                given.router,
                given.experts,
                routing=routing,
                activation=activation,
                shared=given.shared,
                shared_gate=given.gate,
                dtype=dtype_name(x.dtype),
            )
            try:
                got = wrapped(*arguments)
                found = compare(got, x, expected, bound, device=place.device, valueless=backend.valueless)
            except Exception as error:
                yield replace(row, status="error", message=f"{type(error).__name__}: {error}")
                continue
        if not found.fault:
            yield replace(row, worst=found.worst)
            continue
        causes = () if found.values is None else tuple(explained(found.values, bound, given, activation))
        yield replace(row, status="fail", worst=found.worst, causes=causes, message=found.fault)
