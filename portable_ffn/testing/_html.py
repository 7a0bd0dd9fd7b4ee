"""A report as one page: a heat map of each network by library and dtype, and what each cell found."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from portable_ffn.testing._html_cell import details
from portable_ffn.testing._page import figure, frame, shade, text

if TYPE_CHECKING:
    from portable_ffn.testing._report import Report, Row

DTYPES = ("float64", "float32", "float16", "bfloat16")
_GRAVEST = ("error", "fail", "gap", "pass")
_SAID = {"error": "raises an error", "fail": "fails", "gap": "has a known gap", "pass": "passes"}
UNITS = "Errors are in units of the bound that the oracle computes for the rounding of each dtype: up to 1 is right."
LEGEND = (
    ("pass0", "to 0.1"),
    ("pass1", "to 0.25"),
    ("pass2", "to 0.5"),
    ("pass3", "to 1: the bound"),
    ("fail0", "to 10"),
    ("fail1", "to 1000"),
    ("fail2", "beyond"),
    ("gap", "a gap of the library"),
    ("error", "raised an error"),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One network on one backend, device and dtype: its rows, and the name of its panel."""

    panel: str
    rows: tuple["Row", ...]

    @property
    def status(self) -> str:
        """The gravest of its rows."""
        found = {row.status for row in self.rows}
        return next(status for status in _GRAVEST if status in found)

    @property
    def worst(self) -> float:
        """The largest error over the bound; NaN where none compared any values."""
        return max((row.worst for row in self.rows if not math.isnan(row.worst)), default=math.nan)

    @property
    def place(self) -> str:
        """Where it ran."""
        row = self.rows[0]
        return f"{row.backend} {row.device} {row.dtype}"


def page(report: "Report") -> str:
    """The whole page."""
    ran = [row for row in report.rows if row.dtype]
    networks = _networks(ran)
    cells = [cell for network in networks.values() for cell in network]
    found = Counter(row.status for row in report.rows)
    counts = ", ".join(f"{found[status]} {status}" for status in ("pass", "fail", "error", "gap") if found[status])
    verdict = "Passed" if report.passed else "Not passed"
    mark = '<span class="mark good">✓</span>' if report.passed else '<span class="mark bad">✕</span>'
    body = [
        f"<h1>{mark} {verdict}</h1>",
        f'<p class="muted">{text(counts or "no row was run")}. {UNITS}</p>',
        _where_to_look(cells),
        *_missing(row for row in report.rows if not row.dtype),
        "<h2>Library, dtype, activation</h2>" if cells else "",
        _legend() if cells else "",
        f'<div class="grid">{"".join(_network(name, network) for name, network in networks.items())}</div>',
        _unseen(report),
        _versions(report),
        *(details(cell.panel, cell.place, network_name(cell.rows[0]), cell.rows) for cell in cells),
    ]
    return frame(f"portable_ffn: {verdict.lower()}", "\n".join(body))


def network_name(row: "Row") -> str:
    """A network in words."""
    return f"{row.activation}{', gated' if row.gated else ''}{'' if row.bias else ', no biases'}"


def _networks(rows: Iterable["Row"]) -> dict[str, list[Cell]]:
    """The cells of each network, in the order in which they were met."""
    sorted_out: dict[str, dict[tuple[str, str, str], list[Row]]] = {}
    for row in rows:
        cells = sorted_out.setdefault(network_name(row), {})
        cells.setdefault((row.backend, row.device, row.dtype), []).append(row)
    number = count()
    return {
        name: [Cell(f"cell-{next(number)}", tuple(found)) for found in cells.values()]
        for name, cells in sorted_out.items()
    }


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


def _why(row: "Row") -> list[str]:
    """The causes of a failure, or the first line of an error."""
    if row.status == "error":
        return [row.message.strip().partition("\n")[0]]
    return row.cause.split("; or ") if row.cause else ["No known cause explains it"]


def _missing(rows: Iterable["Row"]) -> Iterable[str]:
    """What was asked for and can't be had."""
    for row in rows:
        yield f'<p class="bad">{text(row.message)}</p>'


def _legend() -> str:
    """The colours in words."""
    return '<div class="legend">' + "".join(f'<span><i class="{c}"></i>{text(t)}</span>' for c, t in LEGEND) + "</div>"


def _network(name: str, cells: list[Cell]) -> str:
    """The heat map of one network: a line for each backend and device, a column for each dtype."""
    met = {cell.rows[0].dtype for cell in cells}
    dtypes = [*(dtype for dtype in DTYPES if dtype in met), *sorted(met - set(DTYPES))]
    places: dict[tuple[str, str], dict[str, Cell]] = {}
    for cell in cells:
        row = cell.rows[0]
        places.setdefault((row.backend, row.device), {})[row.dtype] = cell
    head = "".join(f'<th scope="col">{text(dtype)}</th>' for dtype in dtypes)
    lines = "".join(
        f'<tr><th scope="row">{_breakable(backend)}<small>{text(device)}</small></th>'
        + "".join(_cell(found.get(dtype)) for dtype in dtypes)
        + "</tr>"
        for (backend, device), found in places.items()
    )
    columns = f"<colgroup><col>{'<col>' * len(dtypes)}</colgroup>"
    return (
        f'<div class="card"><table class="heat"><caption>{text(name)}</caption>{columns}'
        f'<thead><tr><th scope="col">library</th>{head}</tr></thead><tbody>{lines}</tbody></table></div>'
    )


def _breakable(name: str) -> str:
    """A name that may be broken behind its colons and dashes."""
    return text(name).replace(":", ":<wbr>").replace("-", "-<wbr>")


def _cell(cell: Cell | None) -> str:
    """One cell: a button that opens its panel."""
    if cell is None:
        return '<td class="none">·</td>'
    shown = {
        "fail": f"✕ {figure(cell.worst)}",
        "error": "error",
        "gap": "gap",
        "pass": "shapes" if math.isnan(cell.worst) else figure(cell.worst),
    }[cell.status]
    causes = "; ".join(dict.fromkeys(row.cause for row in cell.rows if row.status == "fail" and row.cause))
    because = f", because {causes}" if causes else ""
    label = f"{shown}: {cell.place}, {network_name(cell.rows[0])}, {_SAID[cell.status]}{because}"
    bold = " bold" if cell.status in ("fail", "error") else ""
    return (
        f'<td><button type="button" class="cell {shade(cell.status, cell.worst)}{bold}" popovertarget="{cell.panel}" '
        f'aria-label="{text(label)}">{text(shown)}</button></td>'
    )


def _unseen(report: "Report") -> str:
    """The faults that can't be seen, a fold for each dtype."""
    sights = report.sights()
    if not sights:
        return ""
    folds = []
    for dtype in DTYPES:
        blind = [sight for sight in sights if sight.dtype == dtype and sight.unseen]
        lines = "".join(
            f"<dt>{text(sight.activation)}{', gated' if sight.gated else ''}</dt>"
            f"<dd>{text('; '.join(f'{fault} ({figure(sight.effects[fault])})' for fault in sight.unseen))}</dd>"
            for sight in blind
        )
        number = sum(len(sight.unseen) for sight in blind)
        if blind:
            told = f"{dtype}: {number} fault{'s' * (number != 1)}"
            folds.append(f'<details class="card"><summary>{told}</summary><dl class="facts">{lines}</dl></details>')
    every = (
        "Every fault of the table of causes moves an answer by more than twice the bound in the dtypes that were run."
    )
    some = "These faults move no answer of the cases by more than twice the bound (their effect over it in brackets)."
    return f"<h2>What can't be seen</h2><p>{some if folds else every}</p>{''.join(folds)}"


def _versions(report: "Report") -> str:
    """What it ran on, and what was not there."""
    ran = ", ".join(f"{library} {version}" for library, version in report.versions.items())
    absent = "".join(f"<dt>{text(name)}</dt><dd>{text(reason)}</dd>" for name, reason in report.absent.items())
    folded = f'<details><summary>Not run: {len(report.absent)}</summary><dl class="facts">{absent}</dl></details>'
    return f'<h2>Run with</h2><p class="wrap">{text(ran or "no library")}</p>{folded if absent else ""}'
