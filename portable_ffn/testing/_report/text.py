"""A report in words: the verdict, what failed by its cause, a table of places."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from portable_ffn.testing._faults.visible import told
from portable_ffn.testing._report.groups import Refused, groups, refused
from portable_ffn.testing._report.rows import Findings, Row, either

_SHOWN = 12  # groups of failures
_NAMED = 6  # places, cases or networks of one group


def report_text(report: Findings) -> str:
    """The whole report: the verdict, where to look, the table of places, what can't be seen."""
    lines = [_verdict_of(report), *([report.subject] if report.subject else [])]
    failures = report.failures()
    none_of = refused(report.rows)
    if none_of is not None:
        failures = tuple(row for row in failures if row.status == "fail" or row.backend not in none_of.backends)
    found = groups(failures)
    for group in found[:_SHOWN]:
        row = group.rows[0]
        gated = ", gated" if row.gated else ""
        lines.append(f"{row.backend} {row.device} {row.dtype}, {row.activation}{gated}, {row.case}: {row.message}")
        if group.causes:
            lines.append(f"  because: {either(group.causes)}")
        if len(group.rows) > 1:
            lines.append(f"  {_alike(group.rows)}")
    more = sum(len(group.rows) for group in found[_SHOWN:])
    if more > 0:
        lines.append(f"... and {more} rows more")
    if none_of is not None:
        lines += _refusal(none_of)
    lines += aligned([("library", "device", "dtype", "error/bound", "verdict"), *summary(report.rows)])
    lines += _gaps(report.rows)
    lines += told(report.networks)
    lines += [f"note: {note}" for note in report.notes]
    return "\n".join(lines)


def _refusal(none_of: Refused) -> list[str]:
    """The libraries of which a network takes no arrays, in two lines."""
    first = none_of.rows[0]
    return [str(none_of), f"  first: {first.backend} {first.device} {first.dtype}, {first.case}: {first.message}"]


def _gaps(rows: Iterable[Row]) -> list[str]:
    """The reasons of known gaps, each once with the places that have it."""
    places: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.status == "gap":
            places.setdefault(row.message, {})[f"{row.backend} {row.dtype}"] = None
    return [f"gap: {reason} ({_some(where)})" for reason, where in places.items()]


def _alike(rows: tuple[Row, ...]) -> str:
    """How many rows fail as the first does, and where."""
    others = rows[1:]
    parts = [
        _some(f"{row.backend} {row.device} {row.dtype}" for row in others),
        f"in {_some(row.case for row in others)}",
    ]
    networks = dict.fromkeys(f"{row.activation}{', gated' if row.gated else ''}" for row in rows)
    if len(networks) > 1:
        parts.append(_some(networks))
    return f"as in {len(others)} row{'s' * (len(others) != 1)} more: {'; '.join(parts)}"


def _some(names: Iterable[str]) -> str:
    """The first of some names, each once, and how many there are beside them."""
    every = list(dict.fromkeys(names))
    told = ", ".join(every[:_NAMED])
    return f"{told} and {len(every) - _NAMED} more" if len(every) > _NAMED else told


def summary(rows: tuple[Row, ...]) -> list[tuple[str, str, str, str, str]]:
    """A line for each backend, device and dtype: these, the worst error over the bound, and the verdict."""
    ordered = sorted(rows, key=_place(rows))
    return [
        (*_key(group[0]), number(_worst(group)), _verdict(group))
        for _, found in groupby(ordered, key=_key)
        for group in [list(found)]
    ]


def counted(rows: tuple[Row, ...]) -> str:
    """How many rows have which status, and what it means where none is a pass or a failure."""
    found = Counter(row.status for row in rows)
    counts = ", ".join(f"{found[status]} {status}" for status in ("pass", "fail", "error", "gap") if found[status])
    if rows and found["gap"] == len(rows):
        counts += ": all that was asked for is a known gap of its library, so that nothing was checked as asked"
    return counts


def _verdict_of(report: Findings) -> str:
    """The verdict in a line."""
    if not report.rows:
        return "not passed: no row was run"
    return f"{'passed' if report.passed else 'not passed'}: {counted(report.rows)}"


def _key(row: Row) -> tuple[str, str, str]:
    """What one line of the table is about."""
    return row.backend, row.device, row.dtype


def _place(rows: tuple[Row, ...]) -> Callable[[Row], Any]:
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


def _verdict(rows: list[Row]) -> str:
    """How many rows failed and how many raised; where none did, how many are gaps, or a pass."""
    found = Counter(row.status for row in rows)
    if found["fail"] or found["error"]:
        return ", ".join(f"{status} ({found[status]} of {len(rows)})" for status in ("fail", "error") if found[status])
    if found["gap"]:
        return f"gap ({found['gap']} of {len(rows)})"
    return "pass" if any(not math.isnan(row.worst) for row in rows) else "pass (shapes only)"


def aligned(table: list[tuple[str, ...]]) -> list[str]:
    """Columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]


def said(error: BaseException) -> str:
    """An error in its own words."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
