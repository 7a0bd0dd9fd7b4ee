"""The errors of all cases of one network: a dot each, by its kind of input, on a log axis in units of the bound."""

import math
from collections.abc import Iterable

from portable_ffn.testing._report.page import figure, text
from portable_ffn.testing._report.plot import Axes, picture
from portable_ffn.testing._report.rows import Row

_LEFT, _WIDTH, _STEP = 150, 620, 19
# The smallest error that the axis tells apart, as a power of ten of the bound.
_FLOOR = -4
# Colour is never alone: each verdict has a shape.
_SHAPES = {"pass": "circle", "gap": "square", "fail": "cross"}


def dots(name: str, rows: Iterable[Row]) -> str:
    """A card with a line for each case and a dot for each row that compared values."""
    shown = [row for row in rows if not math.isnan(row.worst) and row.status in _SHAPES]
    if not shown:
        return ""
    cases = list(dict.fromkeys(row.case for row in shown))
    finite = [row.worst for row in shown if math.isfinite(row.worst) and row.worst > 0.0]
    top = max(1, math.ceil(math.log10(max([*finite, 1.0])) + 0.5))
    axes = Axes(_LEFT, 8, _WIDTH - _LEFT - 30, _STEP * len(cases), (_FLOOR, top), (len(cases), 0.0))
    every = next(step for step in (1, 2, 3, 4, 6, 12, 24, 60, 120, 400) if (top - _FLOOR) / step <= 9)
    bottom = axes.top + axes.height
    drawn = []
    for power in range(_FLOOR, top + 1):
        if power % every and power != 0:
            continue
        x, _ = axes.at(power, 0.0)
        kind = "bound" if power == 0 else "tick"
        drawn.append(f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{axes.top}" y2="{bottom}"/>')
        label = "the bound" if power == 0 else f"1e{power}"
        drawn.append(f'<text x="{x:.1f}" y="{bottom + 15}" text-anchor="middle">{label}</text>')
    for number, case in enumerate(cases):
        y = axes.top + (number + 0.5) * _STEP
        drawn.append(f'<text x="{_LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{text(case)}</text>')
        drawn += [_dot(axes, row, y) for row in shown if row.case == case]
    failed = sum(row.status == "fail" for row in shown)
    told = f"Errors of {len(shown)} rows of {name} over the bound; {failed} lie outside"
    return (
        f'<div class="card"><h3 class="wrap">{text(name)}</h3>'
        f'<p class="muted">Largest error of each row in units of the bound; {failed} of {len(shown)} outside.</p>'
        f"{picture(_WIDTH, int(bottom) + 24, told, ''.join(drawn))}"
        '<p class="muted">● within the bound, ■ a known gap of the library, ✕ outside</p></div>'
    )


def _dot(axes: Axes, row: Row, y: float) -> str:
    """One row, with its place and figure as a title."""
    power = math.log10(row.worst) if 0.0 < row.worst < math.inf else (axes.x[1] if row.worst else axes.x[0])
    x, _ = axes.at(power, 0.0)
    place = f"{row.backend} {row.device} {row.dtype}, {row.case}"
    title = f"<title>{text(f'{place}: {figure(row.worst)}, {row.status}')}</title>"
    if row.status == "pass":
        return f'<circle class="dot-pass" cx="{x:.1f}" cy="{y:.1f}" r="3.2">{title}</circle>'
    if row.status == "gap":
        return f'<rect class="dot-gap" x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6">{title}</rect>'
    arms = f"M{x - 4:.1f},{y - 4:.1f}l8,8M{x - 4:.1f},{y + 4:.1f}l8,-8"
    return f'<path class="dot-fail" d="{arms}">{title}</path>'
