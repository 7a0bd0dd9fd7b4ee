"""One network on one backend, device, dtype and case at a time, against the oracle's answers."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Literal

import numpy as np

from portable_ffn import oracle
from portable_ffn._activations.named import activation_name
from portable_ffn._arrays.dtype import dtype_name
from portable_ffn._arrays.number import whole
from portable_ffn._arrays.typing import Activation
from portable_ffn.testing._backends.arrays import Float64
from portable_ffn.testing._backends.gaps import gap, narrowed
from portable_ffn.testing._backends.select import Place
from portable_ffn.testing._backends.table import Backend, Function
from portable_ffn.testing._faults.table import Failure, Known, explain, tried
from portable_ffn.testing._faults.visible import Network
from portable_ffn.testing._inputs.cases import Case, Inputs, chosen
from portable_ffn.testing._inputs.placed import placed, positional, written
from portable_ffn.testing._inputs.signature import arrays_meant, arrays_taken, not_taken, told_of_none
from portable_ffn.testing._measure.compare import Agreement, compare
from portable_ffn.testing._measure.curve import THROUGH_ONES, Curve, recovered
from portable_ffn.testing._measure.example import smallest
from portable_ffn.testing._report.rows import Row
from portable_ffn.testing._report.text import said


class Plan:
    """One network, what it is meant to compute, and the oracle's answers, each computed once."""

    def __init__(
        self,
        fn: Function,
        activation: Activation,
        gated: bool,
        bias: bool,
        d_model: int = 8,
        d_ff: int = 32,
        seed: int = 0,
        cases: Iterable[str] | None = None,
        quiet: bool = True,
    ) -> None:
        # Some cases replace one number of x, so that x needs one; a hidden layer may be empty.
        self.sizes = whole("d_model", d_model, 1), whole("d_ff", d_ff, 0)
        self.seed = whole("seed", seed, 0)
        order = arrays_taken(fn, gated, bias)
        self.taken = frozenset(arrays_meant(gated, bias)) & frozenset(order)
        self.note = not_taken(fn, order, gated, bias)
        self.fn = positional(fn, order)
        self.activation, self.gated = activation, gated
        self.why_none = partial(told_of_none, gated=gated, bias=bias, taken=order)
        # A network in plain NumPy warns of an infinity that it was given: that is no fault of its.
        self.errors: Literal["ignore", "warn"] = "ignore" if quiet else "warn"
        self.cases = chosen(cases)
        self.answers: dict[tuple[str, str, str], tuple[Inputs, Float64, Float64]] = {}
        self.known: dict[tuple[int, str], Known] = {}
        self.curves: list[Curve] = []
        # An unknown activation is told once, and not by every row.
        oracle.feed_forward([0.0], [[0.0]], None, [[0.0]], None, [[0.0]] if gated else None, activation=activation)

    def rows(self, places: Iterable[Place], progress: Callable[[Row], object] | None = None) -> Iterator[Row]:
        """Every row of these places."""
        for place in places:
            # One wrapped function for all cases of a place: a compiled one keeps what it has compiled.
            with place.backend.inside():
                wrapped = place.backend.wrap(self.fn)
            for dtype in place.dtypes:
                for case in self.cases:
                    if case.first or not place.backend.slow:
                        row = self.row(wrapped, place.backend, place.device, dtype, case)
                        if progress is not None:
                            progress(row)
                        if row.status == "fail" and not self.curves and not place.backend.slow:
                            self._recover(wrapped, place.backend, place.device, dtype)
                        yield row

    def row(self, wrapped: Function, backend: Backend, device: str, dtype: str, case: Case) -> Row:
        """One row."""
        inputs = self.answer(case, dtype, dtype)[0]
        fill = self._filler(backend.name, device, dtype, case.name)
        with backend.inside(), np.errstate(all=self.errors):
            arrays = placed(backend, device, dtype, case, inputs)
            served = dtype_name(arrays[0].dtype)
            try:
                got = wrapped(*arrays)
            except (Exception, SystemExit) as error:  # a network that ends the process has not been checked
                return fill("error", np.nan, message=said(error) + self.why_none(error))
            _, expected, bound = self.answer(case, dtype, served)
            try:
                found = compare(
                    got, arrays[0], expected, bound, dtype=served, device=device, valueless=backend.valueless
                )
            except Exception as error:  # a lazy library computes here, and raises what it has to say
                return fill("error", np.nan, message=said(error) + self.why_none(error))
            changed = "" if backend.valueless else written(arrays, inputs, served, dtype)
            # A backend that compiles at each new shape is not asked for one position alone.
            again = None if backend.slow else lambda few: wrapped(*placed(backend, device, dtype, case, few))
            example = smallest(inputs, found, expected, bound, again)
            excused = self._excused(case, backend, device, dtype, served, got, arrays[0]) if found.fault else None
        if excused is not None and not changed:
            return fill("gap", excused[0], message=excused[1])
        if found.fault or changed:
            causes, none = self._causes(case, inputs, found, got, dtype, expected, bound)
            fault = "; ".join(filter(None, (found.fault, changed, none)))
            return fill("fail", found.worst, causes, fault, example)
        if served != dtype:
            return fill("gap", found.worst, (f"{dtype} served as {served}",), narrowed(backend, dtype, served))
        return fill("pass", found.worst)

    def _recover(self, wrapped: Function, backend: Backend, device: str, dtype: str) -> None:
        """The shape of the activation, the first time that something failed, for the report."""
        case, name = THROUGH_ONES, f"{activation_name(self.activation)}{', gated' if self.gated else ''}"
        inputs, expected, bound = self.answer(case, dtype, dtype)
        with backend.inside(), np.errstate(all=self.errors):
            found = recovered(
                name,
                f"{backend.name} {device} {dtype}",
                lambda: wrapped(*placed(backend, device, dtype, case, inputs)),
                inputs,
                expected,
                bound,
            )
        self.curves += [] if found is None else [found]

    def network(self, dtypes: Iterable[str]) -> Network:
        """What decides which faults this can see in some dtypes."""
        cases = tuple(case.name for case in self.cases)
        name = activation_name(self.activation)
        return Network(self.activation, name, self.gated, self.taken, *self.sizes, self.seed, cases, tuple(dtypes))

    def _excused(
        self,
        case: Case,
        backend: Backend,
        device: str,
        dtype: str,
        served: str,
        got: Any,
        x: Any,
    ) -> tuple[float, str] | None:
        """The error and the reason where a limit of the library explains the fault; None where nothing does."""
        came = dtype_name(got.dtype) if hasattr(got, "dtype") else ""
        known = gap(backend.library, dtype, came) if served == dtype and not backend.valueless else None
        if known is None:
            return None
        _, expected, bound = self.answer(case, dtype, known.right_to)
        found = compare(got, x, expected, bound, dtype=came, device=device)
        return (found.worst, known.reason) if found.agrees else None

    def missing(self, name: str, reason: str) -> Row:
        """The row of a backend that was asked for and can't be had."""
        return self._filler(name, "", "", "")("error", np.nan, message=f"{name} was asked for, but {reason}")

    def answer(self, case: Case, dtype: str, served: str) -> tuple[Inputs, Float64, Float64]:
        """A case's inputs in one dtype, and the oracle's answer and bound in the dtype that it is served as."""
        key = case.name, dtype, served
        if key not in self.answers:
            inputs = case.inputs(self.seed, *self.sizes, self.taken, dtype)
            y, bound = oracle.feed_forward(inputs.x, *inputs.weights, activation=self.activation, dtype=served)
            self.answers[key] = inputs, y, bound
        return self.answers[key]

    def _filler(self, backend: str, device: str, dtype: str, case: str) -> Callable[..., Row]:
        """A row that lacks its outcome."""
        bias = bool({"b1", "b2", "c"} & self.taken)
        return partial(Row, backend, device, dtype, activation_name(self.activation), self.gated, bias, case)

    def _causes(
        self, case: Case, inputs: Inputs, found: Agreement, got: Any, dtype: str, expected: Float64, bound: Float64
    ) -> tuple[tuple[str, ...], str]:
        """What explains a failure, and where nothing does, that it was tried.

        Of values within the bound there is only the dtype to explain.
        """
        came = dtype_name(got.dtype) if hasattr(got, "dtype") else ""
        if found.worst <= 1.0:
            return (f"{dtype} served as {came}",) if came != dtype else (), ""
        # The oracle's answer is one object for each input, dtype and dtype that it is served as.
        known = self.known.setdefault((id(expected), came), {})
        failure = Failure(
            inputs.x, inputs.weights, self.activation, dtype, came, found.values, expected, bound, case.name
        )
        causes = explain(failure, known)
        return causes, "" if causes else tried(failure, known)
