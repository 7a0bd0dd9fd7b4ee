"""A report as one page: a heat map of each network by library and dtype, and what each cell found."""

import re
from collections import Counter
from collections.abc import Iterable

from portable_ffn.testing._report.groups import Refused, refused
from portable_ffn.testing._report.html_cell import details
from portable_ffn.testing._report.html_curve import curve
from portable_ffn.testing._report.html_dots import dots
from portable_ffn.testing._report.html_map import Cell, heat_map, legend, network_name, networks
from portable_ffn.testing._report.html_unseen import unseen
from portable_ffn.testing._report.page import frame, text
from portable_ffn.testing._report.rows import Findings, Row
from portable_ffn.testing._report.script import script
from portable_ffn.testing._report.text import counted

UNITS = "Errors are in units of the bound that the oracle computes for the rounding of each dtype: up to 1 is right."
_DRAWN = 6  # networks of which the errors are drawn


def page(report: Findings) -> str:
    """The whole page."""
    ran = [row for row in report.rows if row.dtype]
    by_network = networks(ran)
    cells = [cell for network in by_network.values() for cell in network]
    verdict = "Passed" if report.passed else "Not passed"
    mark = '<span class="mark good">✓</span>' if report.passed else '<span class="mark bad">✕</span>'
    subject = f'<p class="subject wrap">{text(report.subject)}</p>' if report.subject else ""
    body = [
        f"<h1>{mark} {verdict}</h1>{subject}",
        f'<p class="muted">{text(counted(report.rows) or "no row was run")}. {UNITS}</p>',
        *(f'<p class="wrap"><strong>Note</strong>: {text(note)}</p>' for note in report.notes),
        _where_to_look(cells, refused(report.rows)),
        *_missing(row for row in report.rows if not row.dtype),
        _pictures(report, by_network),
        "<h2>Library, dtype, activation</h2>" if cells else "",
        f'<p class="muted no-print">Each cell opens: its cause, its smallest input, its cases.</p>{legend()}'
        if cells
        else "",
        f'<div class="grid">{"".join(heat_map(name, network) for name, network in by_network.items())}</div>',
        _again(report),
        unseen(report.visible()),
        _versions(report),
        *(details(cell.panel, cell.place, network_name(cell.rows[0]), cell.rows) for cell in cells),
    ]
    return frame(f"portable_ffn: {report.subject or 'a check'}, {verdict.lower()}", "\n".join(body))


def _pictures(report: Findings, by_network: dict[str, list[Cell]]) -> str:
    """Of each network that failed: the shape of its activation, and the errors of all its cases."""
    failed = {name: cells for name, cells in by_network.items() if any(cell.status == "fail" for cell in cells)}
    drawn = [curve(one) for one in report.curves]
    drawn += [dots(name, (row for cell in cells for row in cell.rows)) for name, cells in list(failed.items())[:_DRAWN]]
    more = len(failed) - _DRAWN
    told = f'<p class="muted">{more} networks more failed; the map has them.</p>' if more > 0 else ""
    return f'<h2>Its shape and its errors</h2><div class="pictures">{"".join(drawn)}</div>{told}' if any(drawn) else ""


def _again(report: Findings) -> str:
    """The smallest failing input as a program."""
    program = script(report.failures(), report.run)
    if not program:
        return ""
    return (
        '<h2>See it again</h2><details class="card" open><summary>the smallest failing input, as a program</summary>'
        f"<pre><code>{text(program)}</code></pre></details>"
    )


def _where_to_look(cells: list[Cell], none_of: Refused | None) -> str:
    """The causes, those of most cells first, each with some of its cells.

    Errors that differ in numbers are one, and so are those of the libraries of which it takes no arrays.
    """
    causes: dict[str, tuple[str, list[Cell]]] = {}
    for cell in cells:
        if none_of is not None and cell.rows[0].backend in none_of.backends:
            causes.setdefault("", (str(none_of), []))[1].append(cell)
            continue
        told = Counter(cause for row in cell.rows if row.status in ("fail", "error") for cause in _why(row))
        if told:
            said = told.most_common(1)[0][0]
            causes.setdefault(re.sub(r"\d+", "#", said), (said, []))[1].append(cell)
    if not causes:
        return ""
    listed = "".join(
        f'<div class="card"><h3 class="wrap">{text(told)}</h3>'
        f'<p class="muted">{len(found)} cell{"s" * (len(found) != 1)}</p><div class="chips">{_chips(found)}</div></div>'
        for told, found in sorted(causes.values(), key=lambda cause: -len(cause[1]))
    )
    return f'<h2>Where to look</h2><div class="columns">{listed}</div>'


def _chips(cells: list[Cell], at_most: int = 8) -> str:
    """Buttons that open the panels of some cells."""
    buttons = "".join(
        f'<button type="button" popovertarget="{cell.panel}">{text(cell.place)}, '
        f"{text(network_name(cell.rows[0]))}</button>"
        for cell in cells[:at_most]
    )
    more = len(cells) - at_most
    return f'{buttons}<span class="muted">and {more} more in the map</span>' if more > 0 else buttons


def _why(row: Row) -> tuple[str, ...]:
    """The causes of a failure, or the first line of an error."""
    if row.status == "error":
        return (row.message.strip().partition("\n")[0],)
    return row.causes or ("No known cause explains it",)


def _missing(rows: Iterable[Row]) -> Iterable[str]:
    """What was asked for and can't be had."""
    for row in rows:
        yield f'<p class="bad">{text(row.message)}</p>'


def _versions(report: Findings) -> str:
    """What it ran on, and what was not there."""
    ran = ", ".join(f"{library} {version}" for library, version in report.versions.items())
    absent = "".join(f"<dt>{text(name)}</dt><dd>{text(reason)}</dd>" for name, reason in report.absent.items())
    folded = f'<details><summary>Not run: {len(report.absent)}</summary><dl class="facts">{absent}</dl></details>'
    facts = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in report.run.facts)
    told = f'<dl class="facts">{facts}</dl>' if facts else ""
    return f'<h2>Run with</h2><p class="wrap">{text(ran or "no library")}</p>{told}{folded if absent else ""}'
