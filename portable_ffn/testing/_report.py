"""What a check found: a row for each network, backend, dtype and case."""

import json
import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from portable_ffn.testing._example import Example

if TYPE_CHECKING:
    from portable_ffn.testing._visible import Look, Sight

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
    """

    rows: tuple[Row, ...]
    versions: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    looks: tuple["Look", ...] = field(default=(), repr=False)

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
        from portable_ffn.testing._visible import sights

        return sights(self.looks)

    def to_json(self) -> str:
        """One JSON document: passed, rows, versions, absent, unseen.

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
        return json.dumps({**content, "unseen": unseen}, indent=1, allow_nan=False)

    def to_html(self, path: str | Path) -> None:
        """Write one page, complete in itself, that shows where to look."""
        from portable_ffn.testing._html import page

        Path(path).expanduser().write_text(page(self), encoding="utf-8")

    def summary(self) -> list[tuple[str, str, str, str, str]]:
        """A line for each backend, device and dtype: these, the worst error over the bound, and the verdict."""
        ordered = sorted(self.rows, key=_place(self.rows))
        return [
            (*_key(group[0]), number(_worst(group)), _verdict(group))
            for _, found in groupby(ordered, key=_key)
            for group in [list(found)]
        ]

    def __str__(self) -> str:
        lines = aligned([("library", "device", "dtype", "error/bound", "verdict"), *self.summary()])
        for row in self.failures()[:_SHOWN]:
            gated = ", gated" if row.gated else ""
            lines.append(f"{row.backend} {row.device} {row.dtype}, {row.activation}{gated}, {row.case}: {row.message}")
            if row.cause:
                lines.append(f"  because: {row.cause}")
        more = len(self.failures()) - _SHOWN
        if more > 0:
            lines.append(f"... and {more} rows more")
        if self.looks:
            from portable_ffn.testing._visible import told

            lines += told(self.looks)
        lines.append(self._last())
        return "\n".join(lines)

    def _last(self) -> str:
        """The verdict in a line."""
        if not self.rows:
            return "not passed: no row was run"
        found = Counter(row.status for row in self.rows)
        counts = ", ".join(f"{found[status]} {status}" for status in ("pass", "fail", "error", "gap") if found[status])
        return f"{'passed' if self.passed else 'not passed'}: {counts}"


_SHOWN = 12


def _key(row: Row) -> tuple[str, str, str]:
    """What one line of the table is about."""
    return row.backend, row.device, row.dtype


def _place(rows: tuple[Row, ...]) -> Any:
    """The order in which places and dtypes were first met."""
    places: dict[tuple[str, str], int] = {}
    dtypes: dict[str, int] = {}
    for row in rows:
        places.setdefault((row.backend, row.device), len(places))
        dtypes.setdefault(row.dtype, len(dtypes))
    return lambda row: (places[row.backend, row.device], dtypes[row.dtype])


def _worst(rows: list[Row]) -> float:
    """The largest error of several rows; NaN where none compared any values."""
    return max((row.worst for row in rows if not math.isnan(row.worst)), default=math.nan)


def number(worst: float) -> str:
    """An error in units of the bound, as text."""
    return "-" if math.isnan(worst) else f"{worst:.3g}"


def json_numbers(value: Any) -> Any:
    """The same with numbers that JSON has: null for NaN, a string for an infinity."""
    if isinstance(value, dict):
        return {key: json_numbers(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_numbers(one) for one in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)


def _verdict(rows: list[Row]) -> str:
    """The gravest status among several rows, with how many have it, and the first reason of a gap."""
    found = Counter(row.status for row in rows)
    for status in ("error", "fail"):
        if found[status]:
            return f"{status} ({found[status]} of {len(rows)})"
    if found["gap"]:
        reason = next(row.message for row in rows if row.status == "gap")
        return f"gap ({found['gap']} of {len(rows)}): {reason}"
    return "pass" if any(not math.isnan(row.worst) for row in rows) else "pass (shapes only)"


def aligned(table: list[tuple[str, ...]]) -> list[str]:
    """Columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]
