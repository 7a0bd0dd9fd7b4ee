"""One network on one backend, device, dtype and case at a time, against the oracle's answers."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Literal

import numpy as np

from portable_ffn import oracle
from portable_ffn._activations.named import activation_name
from portable_ffn._arrays.dtype import LOW_PRECISION, dtype_name
from portable_ffn._arrays.number import whole
from portable_ffn._arrays.typing import Activation
from portable_ffn.testing._backends.arrays import Float64
from portable_ffn.testing._backends.gaps import gap, narrowed
from portable_ffn.testing._backends.select import Place
from portable_ffn.testing._backends.table import Backend, Function
from portable_ffn.testing._causes import in_wider, with_causes
from portable_ffn.testing._faults.diagnosis import Diagnosis, diagnose
from portable_ffn.testing._faults.failure import Evidence
from portable_ffn.testing._faults.row import Fault, Meant, meant_with
from portable_ffn.testing._faults.visible import Network
from portable_ffn.testing._inputs.build import Inputs
from portable_ffn.testing._inputs.cases import Case, chosen, due
from portable_ffn.testing._inputs.placed import placed, positional, written
from portable_ffn.testing._inputs.signature import arrays_meant, arrays_taken, not_taken, told_of_none
from portable_ffn.testing._measure.compare import compare
from portable_ffn.testing._measure.curve import THROUGH_ONES, Curve, recovered
from portable_ffn.testing._measure.example import smallest
from portable_ffn.testing._questions import OVERWRITTEN, RANDOM, Questions
from portable_ffn.testing._report.rows import Row
from portable_ffn.testing._report.text import said

BEHAVIOUR = (OVERWRITTEN, RANDOM)


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
        self.known: list[Fault] = []
        self.unexplained: set[tuple[str, str]] = set()
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
                yield from self._in_dtype(wrapped, place, dtype, progress)

    def _in_dtype(
        self, wrapped: Function, place: Place, dtype: str, progress: Callable[[Row], object] | None
    ) -> Iterator[Row]:
        """The rows of one place and dtype, with what explains all of them together."""
        backend, device = place.backend, place.device
        questions = Questions(wrapped, backend, device, dtype, self.answer, self.activation, self.errors)
        cases = [case for case in self.cases if due(case, backend.slow, dtype, place.dtypes)]
        twice = next((case for case in cases if case.name == "ordinary"), cases[0] if cases else None)
        found: list[tuple[Row, Evidence | None]] = []
        for case in cases:
            found.append(self.measured(questions, case, twice=case is twice))
            if progress is not None:
                progress(found[-1][0])
        if any(row.status == "fail" for row, _ in found) and not self.curves and not backend.slow:
            self._recover(wrapped, backend, device, dtype)
        yield from self._explained(found, questions)

    def _explained(self, found: list[tuple[Row, Evidence | None]], questions: Questions) -> list[Row]:
        """The rows with their causes."""
        told = next((row.causes for row, _ in found if row.causes and row.causes[0] in BEHAVIOUR), ())
        calls = [call for _, call in found if call is not None]
        place = questions.backend.name, questions.device
        diagnosis = Diagnosis(told)
        if not told and any(call.fails for call in calls):
            wider = Diagnosis() if self.known else in_wider(questions, self.meant)
            # What nothing explains in a wider dtype is not explained by a look that is less sharp.
            search = not wider.note and not (questions.dtype in LOW_PRECISION and place in self.unexplained)
            diagnosis = diagnose(calls, self.meant, questions, [*self.known, *wider.found], search=search)
        self.known += [fault for fault in diagnosis.found if fault not in self.known]
        if diagnosis.note:
            self.unexplained.add(place)
        return [with_causes(row, call, diagnosis) for row, call in found]

    def row(self, wrapped: Function, backend: Backend, device: str, dtype: str, case: Case) -> Row:
        """One row, by itself."""
        questions = Questions(wrapped, backend, device, dtype, self.answer, self.activation, self.errors)
        return self.measured(questions, case)[0]

    def measured(self, at: Questions, case: Case, *, twice: bool = False) -> tuple[Row, Evidence | None]:
        """One row without its cause, and what speaks for causes and against them; `twice` calls it more than once."""
        backend, device, dtype = at.backend, at.device, at.dtype
        inputs = self.answer(case, dtype, dtype)[0]
        fill = self._filler(backend.name, device, dtype, case.name)
        with backend.inside(), np.errstate(all=self.errors):
            arrays = placed(backend, device, dtype, case, inputs)
            served = dtype_name(arrays[0].dtype)
            _, expected, bound = self.answer(case, dtype, served)
            try:
                got = at.wrapped(*arrays)
                found = compare(
                    got, arrays[0], expected, bound, dtype=served, device=device, valueless=backend.valueless
                )
                changed = "" if backend.valueless else written(arrays, inputs, served, dtype)
                beside = ("", "")
                if twice and found.values is not None and not changed:
                    beside = at.behaviour(case, inputs, got, bound)
            # A network that ends the process has not been checked; a lazy one computes here, and raises here.
            except (Exception, SystemExit) as error:
                return fill("error", np.nan, message=said(error) + self.why_none(error)), None
            # A backend that compiles at each new shape is not asked for one position alone.
            again = None if backend.slow else lambda few: at.wrapped(*placed(backend, device, dtype, case, few))
            example = smallest(inputs, found, expected, bound, again)
            excused = self._excused(case, backend, device, dtype, served, got, arrays[0]) if found.fault else None
        if excused is not None and not changed and not beside[0]:
            return fill("gap", excused[0], message=excused[1]), None
        came = dtype_name(got.dtype) if hasattr(got, "dtype") else ""
        call = Evidence(
            inputs.x, inputs.weights, self.activation, dtype, came, found.values, expected, bound, case.name
        )
        if found.fault or changed or beside[0]:
            fault = "; ".join(filter(None, (found.fault, changed, beside[0])))
            causes = (beside[1],) if beside[1] else ("the caller's arrays are written to",) if changed else ()
            if not causes and found.worst <= 1.0 and came != dtype:
                causes = (f"{dtype} served as {came}",)
            return fill("fail", found.worst, causes, fault, example), call
        if served != dtype:
            return fill("gap", found.worst, (f"{dtype} served as {served}",), narrowed(backend, dtype, served)), call
        return fill("pass", found.worst), call

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

    @property
    def meant(self) -> Meant:
        """What decides which faults it can have."""
        return meant_with(self.activation, self.gated, self.taken)

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
