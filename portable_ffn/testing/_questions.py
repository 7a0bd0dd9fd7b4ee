"""A network at one place in one dtype, called on inputs that are no rows of a report: evidence, and its behaviour."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from portable_ffn._arrays.dtype import dtype_name
from portable_ffn._arrays.typing import Activation
from portable_ffn.testing._backends.arrays import Float64, take
from portable_ffn.testing._backends.table import Backend, Function
from portable_ffn.testing._faults.failure import Evidence
from portable_ffn.testing._inputs.build import Inputs
from portable_ffn.testing._inputs.cases import Case
from portable_ffn.testing._inputs.designs import DESIGNS
from portable_ffn.testing._inputs.placed import placed
from portable_ffn.testing._measure.compare import compare, shares

Answers = Callable[[Case, str, str], tuple[Inputs, Float64, Float64]]
OVERWRITTEN = "the answer of one call is overwritten by the next"
RANDOM = "the answer differs from call to call: dropout left on, or another randomness"


class Questions:
    """What a network can be asked at one place, in one dtype."""

    def __init__(
        self,
        wrapped: Function,
        backend: Backend,
        device: str,
        dtype: str,
        answers: Answers,
        activation: Activation,
        errors: Literal["ignore", "warn"],
    ) -> None:
        self.wrapped, self.backend, self.device, self.dtype = wrapped, backend, device, dtype
        self.answers, self.activation, self.errors = answers, activation, errors
        # A backend that compiles for each shape is asked on shapes that it has met.
        self.cases = {case.name: case for case in DESIGNS if case.first or not backend.slow}
        self.names = () if backend.valueless else tuple(self.cases)

    def made(self, name: str) -> Evidence:
        """What is meant on an input, with nothing that came."""
        inputs, y, bound = self.answers(self.cases[name], self.dtype, self.dtype)
        return Evidence(inputs.x, inputs.weights, self.activation, self.dtype, self.dtype, None, y, bound, name)

    def asked(self, name: str) -> Evidence | None:
        """The network's answer; None where it raises, or gives something else than values of that shape."""
        case = self.cases[name]
        inputs = self.answers(case, self.dtype, self.dtype)[0]
        try:
            with self.backend.inside(), np.errstate(all=self.errors):
                arrays = placed(self.backend, self.device, self.dtype, case, inputs)
                served = dtype_name(arrays[0].dtype)
                got = self.wrapped(*arrays)
                _, y, bound = self.answers(case, self.dtype, served)
                found = compare(got, arrays[0], y, bound, dtype=served, device=self.device)
                came = dtype_name(got.dtype)
        except Exception:  # what it raises on the cases of the report is told there
            return None
        return Evidence(inputs.x, inputs.weights, self.activation, self.dtype, came, found.values, y, bound, name)

    def behaviour(self, case: Case, inputs: Inputs, got: Any, bound: Float64) -> tuple[str, str]:
        """What is wrong with an answer beside its values, and the cause: not its own, or not the same in a second call.

        Both are empty where nothing is.
        """
        if self.backend.valueless or not np.size(bound):
            return "", ""
        first = np.array(take(got))
        turned = inputs._replace(x=np.where(np.isfinite(inputs.x), -0.5 * inputs.x, 0.0))
        self._called(case, turned)
        if not np.array_equal(first, take(got), equal_nan=True):
            return "an answer must stay as it is, but a second call with another x changed it", OVERWRITTEN
        again = take(self._called(case, inputs))
        if again.shape != first.shape or np.any(shares(again, first, 2.0 * bound) > 1.0):
            return "two calls with equal arrays must give the same, but their answers differ", RANDOM
        return "", ""

    def _called(self, case: Case, inputs: Inputs) -> Any:
        """One more call on arrays of its own."""
        return self.wrapped(*placed(self.backend, self.device, self.dtype, case, inputs))
