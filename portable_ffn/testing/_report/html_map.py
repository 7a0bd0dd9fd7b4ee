"""Heat maps: a table for each network, a line for each backend and device, a column for each dtype."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

from portable_ffn.testing._report.page import figure, shade, text
from portable_ffn.testing._report.rows import Row

DTYPES = ("float64", "float32", "float16", "bfloat16")
_GRAVEST = ("error", "fail", "gap", "pass")
_SAID = {"error": "raises an error", "fail": "fails", "gap": "has a known gap", "pass": "passes"}
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
    rows: tuple[Row, ...]

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


def network_name(row: Row) -> str:
    """A network in words."""
    return f"{row.activation}{', gated' if row.gated else ''}{'' if row.bias else ', no biases'}"


def networks(rows: Iterable[Row]) -> dict[str, list[Cell]]:
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


def legend() -> str:
    """The colours in words."""
    return '<div class="legend">' + "".join(f'<span><i class="{c}"></i>{text(t)}</span>' for c, t in LEGEND) + "</div>"


def heat_map(name: str, cells: list[Cell]) -> str:
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
    bad = [_SAID[status] for status in ("error", "fail") if any(row.status == status for row in cell.rows)]
    said = " and ".join(bad) or _SAID[cell.status]
    label = f"{shown}: {cell.place}, {network_name(cell.rows[0])}, {said}{because}"
    bold = " bold" if cell.status in ("fail", "error") else ""
    return (
        f'<td><button type="button" class="cell {shade(cell.status, cell.worst)}{bold}" popovertarget="{cell.panel}" '
        f'aria-label="{text(label)}">{text(shown)}</button></td>'
    )
