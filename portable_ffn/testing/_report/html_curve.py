"""The shape of a network's activation over the one that is meant, and their difference below."""

import math

from portable_ffn.testing._measure.curve import Curve
from portable_ffn.testing._report.page import text
from portable_ffn.testing._report.plot import Axes, grid, line, picture, ticks

_WIDTH, _LEFT = 480, 76


def curve(found: Curve) -> str:
    """A card with both curves."""
    off = [a - b if math.isfinite(a - b) else math.nan for a, b in zip(found.found, found.meant, strict=True)]
    worst = max((abs(one) for one in off if math.isfinite(one)), default=0.0)
    inside = all(
        abs(one) <= limit or (math.isnan(one) and not math.isfinite(meant))
        for one, limit, meant in zip(off, found.bound, found.meant, strict=True)
    )
    told = (
        "Through weights of 1 x 1 it lies within rounding of what is meant: the fault is elsewhere than in the bend."
        if inside
        else f"Through weights of 1 x 1 it differs by up to {worst:.3g}."
    )
    low, high = _range([*found.found, *found.meant])
    top = Axes(_LEFT, 24, _WIDTH - _LEFT - 12, 190, (found.x[0], found.x[-1]), (low, high))
    edge = 1.1 * worst or 1.0
    below = Axes(_LEFT, 252, top.width, 90, top.x, (-edge, edge))
    body = (
        grid(top, up=ticks(low, high))
        + line(top, zip(found.x, found.meant, strict=True), "meant")
        + line(top, zip(found.x, found.found, strict=True), "found")
        + grid(below, across=ticks(*top.x, 6), up=(-worst, 0.0, worst) if worst else (0.0,), label="found - meant")
        + line(below, zip(found.x, off, strict=True), "found")
    )
    return (
        f'<div class="card"><h3 class="wrap">{text(found.network)}</h3>'
        f'<p class="muted">{text(found.place)}. {text(told)}</p>'
        f"{picture(_WIDTH, 366, f'The activation of {found.network}, found and meant: {told}', body)}"
        '<div class="legend"><span><i class="key-meant"></i>meant</span><span><i class="key-found"></i>found</span>'
        "</div></div>"
    )


def _range(values: list[float]) -> tuple[float, float]:
    """The range of the finite numbers, a little widened."""
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    room = 0.05 * (high - low) or 1.0
    return low - room, high + room
