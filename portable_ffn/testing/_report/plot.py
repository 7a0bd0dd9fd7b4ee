"""A small plot as SVG: two axes with round ticks, and a place for what is drawn in them. No script, no own font."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from portable_ffn.testing._report.page import text


class Axes(NamedTuple):
    """A rectangle of the picture with the ranges of its two axes."""

    left: float
    top: float
    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a point lies in the picture; what is outside lies on the edge."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return self.left + min(1.0, max(0.0, across)) * self.width, self.top + (
            1 - min(1.0, max(0.0, up))
        ) * self.height


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers between two, about so many."""
    step = 10.0 ** math.floor(math.log10((high - low) / about))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= about)
    return [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def grid(axes: Axes, across: Iterable[float] = (), up: Iterable[float] = (), label: str = "") -> str:
    """Lines at round numbers with these beside them."""
    drawn = []
    for value in across:
        x, _ = axes.at(value, axes.y[0])
        drawn.append(f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{axes.top}" y2="{axes.top + axes.height}"/>')
        drawn.append(f'<text x="{x:.1f}" y="{axes.top + axes.height + 14}" text-anchor="middle">{value:.4g}</text>')
    for value in up:
        _, y = axes.at(axes.x[0], value)
        drawn.append(f'<line class="tick" x1="{axes.left}" x2="{axes.left + axes.width}" y1="{y:.1f}" y2="{y:.1f}"/>')
        drawn.append(f'<text x="{axes.left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    if label:
        drawn.append(f'<text x="{axes.left}" y="{axes.top - 6}">{text(label)}</text>')
    return "".join(drawn)


def line(axes: Axes, points: Iterable[tuple[float, float]], kind: str) -> str:
    """A line through points; it is broken where a number isn't finite."""
    runs: list[list[str]] = [[]]
    for x, y in points:
        if math.isfinite(y):
            across, down = axes.at(x, y)
            runs[-1].append(f"{across:.1f},{down:.1f}")
        elif runs[-1]:
            runs.append([])
    return "".join(f'<polyline class="{kind}" points="{" ".join(run)}"/>' for run in runs if run)


def picture(width: int, height: int, told: str, body: str) -> str:
    """The whole picture, with what it shows in words."""
    return f'<svg class="plot" role="img" aria-label="{text(told)}" viewBox="0 0 {width} {height}">{body}</svg>'
