"""Failures that are told together: by the cause that explains them, or by what their messages say beside numbers."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from portable_ffn.testing._report.rows import Row


class Group(NamedTuple):
    """Rows that failed alike: the causes that explain them all, none where nothing does or an error was raised."""

    causes: tuple[str, ...]
    rows: tuple[Row, ...]


class Refused(NamedTuple):
    """Backends on which nothing but errors was raised, while others ran: `rows` are theirs, `ran` those that ran."""

    backends: tuple[str, ...]
    ran: tuple[str, ...]
    rows: tuple[Row, ...]

    def __str__(self) -> str:
        return (
            f"raises in every row on {', '.join(self.backends)}, and runs on {', '.join(self.ran)}: "
            "name the libraries that it is for (backends=), or let it take any array"
        )


def refused(rows: Iterable[Row]) -> Refused | None:
    """The backends that a network takes no arrays of, where these are two or more and some other ran."""
    places: dict[str, list[Row]] = {}
    for row in rows:
        if row.dtype:
            places.setdefault(row.backend, []).append(row)
    raising = {name for name, found in places.items() if all(row.status == "error" for row in found)}
    if len(raising) < 2 or len(raising) == len(places):
        return None
    told = tuple(row for name in places if name in raising for row in places[name])
    backends = tuple(name for name in places if name in raising)
    return Refused(backends, tuple(name for name in places if name not in raising), told)


def groups(rows: Iterable[Row]) -> list[Group]:
    """Failures by what explains most of them, the largest group first."""
    left, found = list(rows), []
    while left:
        counted = Counter(key for row in left for key in _keys(row))
        key = max(counted, key=counted.__getitem__)
        alike = [row for row in left if key in _keys(row)]
        left = [row for row in left if key not in _keys(row)]
        common = tuple(cause for cause in _causes(alike[0]) if all(cause in _causes(row) for row in alike))
        found.append(Group(common, tuple(alike)))
    return sorted(found, key=lambda group: -len(group.rows))


def _keys(row: Row) -> tuple[str, ...]:
    """What rows that are told together have in common: a cause, or what their messages say beside numbers."""
    if row.status == "fail" and row.causes:
        return row.causes
    if row.status == "fail":  # what must hold is said before the first number
        return (re.split(r"-?\d|\b(?:nan|-?inf)\b", row.message)[0],)
    return (re.sub(r"\d+", "#", row.message),)


def _causes(row: Row) -> tuple[str, ...]:
    """The causes of a row, one by one."""
    return row.causes if row.status == "fail" else ()
