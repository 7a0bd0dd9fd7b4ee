"""What a check found: a row for each network, backend, dtype and case."""

import json
import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from portable_ffn.testing._measure.example import Example
from portable_ffn.testing._report.page import write
from portable_ffn.testing._report.text import report_text, summary

if TYPE_CHECKING:
    from portable_ffn.testing._faults.visible import Look, Sight

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
    cause : str
        What explains the difference, empty where nothing does or nothing has to.
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
    cause: str = ""
    message: str = ""
    example: Example | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The rows of a check, the versions they were run with, and the backends that were not found.

    Attributes
    ----------
    rows : tuple of Row
    versions : dict
        Library -> version.
    absent : dict
        Backend -> why it was not run.
    looks : tuple of Look
        The networks as they were looked at, from which `sights` says what can't be seen.
    notes : tuple of str
        What was not checked, and why.
    """

    rows: tuple[Row, ...]
    versions: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    looks: tuple["Look", ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether some row passed, and none failed or raised."""
        found = Counter(row.status for row in self.rows)
        return bool(found["pass"]) and not found["fail"] and not found["error"]

    def failures(self) -> tuple[Row, ...]:
        """The rows that failed or raised."""
        return tuple(row for row in self.rows if row.status in ("fail", "error"))

    def raise_if_failed(self) -> None:
        """Raise AssertionError with the report as its text unless all rows passed."""
        if not self.passed:
            raise AssertionError(str(self))

    def sights(self) -> tuple["Sight", ...]:
        """For each network and dtype, how far each fault of the table of causes moves an answer over its bound."""
        from portable_ffn.testing._faults.visible import sights

        return sights(self.looks)

    def to_json(self) -> str:
        """One JSON document: passed, rows, versions, absent, notes, unseen.

        A number is null where it is NaN, and the string "inf" or "-inf" where it is infinite: `worst` is null where no
        values were compared, "inf" where a NaN or an infinity is out of place. `unseen` lists for each network and
        dtype the faults that can't be seen there, with their effect in units of the bound.
        """
        rows = [json_numbers(asdict(row)) for row in self.rows]
        unseen = [
            {
                **{name: getattr(sight, name) for name in ("activation", "gated", "bias", "dtype")},
                "faults": {fault: json_numbers(sight.effects[fault]) for fault in sight.unseen},
            }
            for sight in self.sights()
        ]
        content = {"passed": self.passed, "rows": rows, "versions": self.versions, "absent": self.absent}
        return json.dumps({**content, "notes": self.notes, "unseen": unseen}, indent=1, allow_nan=False)

    def to_html(self, path: str | Path) -> None:
        """Write one page, complete in itself, that shows where to look.

        Raises OSError where it can't be written, with the folder's name where that doesn't exist.
        """
        from portable_ffn.testing._report.html import page

        write(path, page(self))

    def summary(self) -> list[tuple[str, str, str, str, str]]:
        """A line for each backend, device and dtype: these, the worst error over the bound, and the verdict."""
        return summary(self.rows)

    def __str__(self) -> str:
        return report_text(self)


def json_numbers(value: Any) -> Any:
    """The same with numbers that JSON has: null for NaN, a string for an infinity."""
    if isinstance(value, dict):
        return {key: json_numbers(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_numbers(one) for one in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)
