"""What a check found: a row for each network, backend, dtype and case, and all rows together."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from portable_ffn.testing._faults.visible import Network, Visibility, visible
from portable_ffn.testing._measure.curve import Curve
from portable_ffn.testing._measure.example import Example
from portable_ffn.testing._report.run import NO_RUN, Run

Status = Literal["pass", "fail", "gap", "error"]


@dataclass(frozen=True, slots=True)
class Row:
    """One network on one case.

    Attributes
    ----------
    backend, device, dtype, activation : str
    gated, bias : bool
    case : str
    status : {"pass", "fail", "gap", "error"}
        Within the bound; outside, or of the wrong kind; a limit of the library that is known; raised an error.
    worst : float
        The largest error as a fraction of the bound; NaN where no values were compared.
    causes : tuple of str
        What explains the difference, each by itself; empty where nothing does or nothing has to.
    message : str
        What must hold, what came, and where.
    example : Example or None
        The smallest input that shows a value outside the bound.
    """

    backend: str
    device: str
    dtype: str
    activation: str
    gated: bool
    bias: bool
    case: str
    status: Status
    worst: float
    causes: tuple[str, ...] = ()
    message: str = ""
    example: Example | None = None

    @property
    def cause(self) -> str:
        """The causes in a line."""
        return either(self.causes)


def either(causes: tuple[str, ...]) -> str:
    """Causes of which each is enough, in a line."""
    return "; or ".join(causes)


@dataclass(frozen=True, slots=True)
class Findings:
    """The rows of a check, the versions they were run with, and the backends that were not found.

    Attributes
    ----------
    rows : tuple of Row
    versions : dict
        Library -> version.
    absent : dict
        Backend -> why it was not run.
    networks : tuple of Network
        The networks that were run, from which `visible` says what can't be seen.
    notes : tuple of str
        What was not checked, and why.
    run : Run
        What was checked, and how it can be checked again.
    curves : tuple of Curve
        The shapes of the activations of networks that failed.
    strict : bool
        Whether a note, an array that the network doesn't take, is a failure.
    """

    rows: tuple[Row, ...]
    versions: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    networks: tuple[Network, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()
    run: Run = NO_RUN
    curves: tuple[Curve, ...] = ()
    strict: bool = False

    @property
    def subject(self) -> str:
        """What was checked, by name."""
        return self.run.subject

    @property
    def passed(self) -> bool:
        """Whether some row passed, none failed or raised, and, where that is strict, nothing was left unchecked."""
        found = Counter(row.status for row in self.rows)
        clean = bool(found["pass"]) and not found["fail"] and not found["error"]
        return clean and not (self.strict and self.notes)

    def failures(self) -> tuple[Row, ...]:
        """The rows that failed or raised."""
        return tuple(row for row in self.rows if row.status in ("fail", "error"))

    def visible(self) -> tuple[Visibility, ...]:
        """For each network and dtype, how far each fault of the table of causes moves an answer over its bound."""
        return visible(self.networks)


def json_numbers(value: Any) -> Any:
    """The same with numbers that JSON has: null for NaN, a string for an infinity."""
    if isinstance(value, dict):
        return {key: json_numbers(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_numbers(one) for one in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)
