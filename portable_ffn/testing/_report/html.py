"""A report as one page: a heat map of each network by library and dtype, and what each cell found."""

from collections import Counter
from collections.abc import Iterable

from portable_ffn.testing._report.html_cell import details
from portable_ffn.testing._report.html_map import DTYPES, Cell, heat_map, legend, network_name, networks
from portable_ffn.testing._report.page import figure, frame, text
from portable_ffn.testing._report.rows import Findings, Row
from portable_ffn.testing._report.text import counted

UNITS = "Errors are in units of the bound that the oracle computes for the rounding of each dtype: up to 1 is right."


def page(report: Findings) -> str:
    """The whole page."""
    ran = [row for row in report.rows if row.dtype]
    by_network = networks(ran)
    cells = [cell for network in by_network.values() for cell in network]
    verdict = "Passed" if report.passed else "Not passed"
    mark = '<span class="mark good">✓</span>' if report.passed else '<span class="mark bad">✕</span>'
    body = [
        f"<h1>{mark} {verdict}</h1>",
        f'<p class="muted">{text(counted(report.rows) or "no row was run")}. {UNITS}</p>',
        *(f'<p class="wrap"><strong>Note</strong>: {text(note)}</p>' for note in report.notes),
        _where_to_look(cells),
        *_missing(row for row in report.rows if not row.dtype),
        "<h2>Library, dtype, activation</h2>" if cells else "",
        legend() if cells else "",
        f'<div class="grid">{"".join(heat_map(name, network) for name, network in by_network.items())}</div>',
        _unseen(report),
        _versions(report),
        *(details(cell.panel, cell.place, network_name(cell.rows[0]), cell.rows) for cell in cells),
    ]
    return frame(f"portable_ffn: {verdict.lower()}", "\n".join(body))


def _where_to_look(cells: list[Cell]) -> str:
    """The causes, those of most cells first, each with some of its cells."""
    causes: dict[str, list[Cell]] = {}
    for cell in cells:
        told = Counter(cause for row in cell.rows if row.status in ("fail", "error") for cause in _why(row))
        if told:
            causes.setdefault(told.most_common(1)[0][0], []).append(cell)
    if not causes:
        return ""
    listed = "".join(
        f'<div class="card"><h3 class="wrap">{text(told)}</h3>'
        f'<p class="muted">{len(found)} cell{"s" * (len(found) != 1)}</p><div class="chips">{_chips(found)}</div></div>'
        for told, found in sorted(causes.items(), key=lambda cause: -len(cause[1]))
    )
    return f'<h2>Where to look</h2><div class="grid">{listed}</div>'


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


def _unseen(report: Findings) -> str:
    """The faults that can't be seen, a fold for each dtype."""
    visible = report.visible()
    if not visible:
        return ""
    folds = []
    for dtype in DTYPES:
        blind = [one for one in visible if one.dtype == dtype and one.unseen]
        lines = "".join(
            f"<dt>{text(one.activation)}{', gated' if one.gated else ''}</dt>"
            f"<dd>{text('; '.join(f'{fault} ({figure(one.effects[fault])})' for fault in one.unseen))}</dd>"
            for one in blind
        )
        number = sum(len(one.unseen) for one in blind)
        if blind:
            told = f"{dtype}: {number} fault{'s' * (number != 1)}"
            folds.append(f'<details class="card"><summary>{told}</summary><dl class="facts">{lines}</dl></details>')
    every = (
        "Every fault of the table of causes moves an answer by more than twice the bound in the dtypes that were run."
    )
    some = "These faults move no answer of the cases by more than twice the bound (their effect over it in brackets)."
    return f"<h2>What can't be seen</h2><p>{some if folds else every}</p>{''.join(folds)}"


def _versions(report: Findings) -> str:
    """What it ran on, and what was not there."""
    ran = ", ".join(f"{library} {version}" for library, version in report.versions.items())
    absent = "".join(f"<dt>{text(name)}</dt><dd>{text(reason)}</dd>" for name, reason in report.absent.items())
    folded = f'<details><summary>Not run: {len(report.absent)}</summary><dl class="facts">{absent}</dl></details>'
    return f'<h2>Run with</h2><p class="wrap">{text(ran or "no library")}</p>{folded if absent else ""}'
