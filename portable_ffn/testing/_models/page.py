"""A comparison of two models as one page: the error of each layer, and what is known of it."""

import math

from portable_ffn.testing._models.layer import Compared, Layer
from portable_ffn.testing._models.quantised_page import losses
from portable_ffn.testing._report.html_cell import example
from portable_ffn.testing._report.page import figure, frame, shade, text

# The lowest error that the chart tells apart, as a power of ten of the bound.
_FLOOR = -4
UNITS = "Errors are those of B's outputs in units of the bound that the oracle computes for A: up to 1 is right."
_SAID = {"pass": "agrees", "fail": "differs", "error": "could not be compared"}


def page(comparison: Compared) -> str:
    """The whole page."""
    verdict = "The models agree" if comparison.passed else "The models differ"
    if not comparison.passed and not comparison.different:
        verdict = "The models could not be compared"
    mark = '<span class="mark good">✓</span>' if comparison.passed else '<span class="mark bad">✕</span>'
    layers = comparison.layers
    agree = sum(layer.status == "pass" for layer in layers)
    body = [
        f"<h1>{mark} {verdict}</h1>",
        f'<dl class="facts"><dt>A</dt><dd>{text(comparison.a)}</dd><dt>B</dt><dd>{text(comparison.b)}</dd></dl>',
        f'<p class="muted">{agree} of {len(layers)} layers agree. {UNITS}</p>',
        _first(comparison),
        *_alone(comparison),
        f"<h2>Error by layer</h2>{chart(layers)}" if layers else "",
        losses(layers),
        "".join(_layer(number, layer) for number, layer in enumerate(layers)),
    ]
    return frame(f"portable_ffn: {verdict}", "\n".join(body))


def _first(comparison: Compared) -> str:
    """The first layer that differs, with a way to it."""
    layer = comparison.first
    if layer is None:
        return ""
    number = comparison.layers.index(layer)
    return (
        f'<h2>Where to look</h2><div class="card"><h3 class="wrap">{text(layer.cause or _UNKNOWN)}</h3>'
        f'<p class="wrap">First in <a href="#layer-{number}">{text(layer.title)}</a>, '
        f"{figure(layer.worst)} times the bound.</p></div>"
    )


_UNKNOWN = "No known cause explains it"


def _alone(comparison: Compared) -> list[str]:
    """Layers that only one model has, and those that were left out."""
    told = []
    for side, names in (("A", comparison.only_a), ("B", comparison.only_b)):
        if names:
            told.append(f'<p class="bad wrap">Only in {side}: {text(", ".join(names))}</p>')
    if comparison.skipped:
        numbers = ", ".join(map(str, comparison.skipped))
        told.append(f"<p>The inputs don't have the layers {numbers}.</p>")
    return told


def chart(layers: tuple[Layer, ...]) -> str:
    """A bar for each layer up to its worst error, a mark at its median, and a line at the bound; logarithmic."""
    finite = [layer.worst for layer in layers if math.isfinite(layer.worst) and layer.worst > 0.0]
    top = max(1, math.ceil(math.log10(max([*finite, 1.0])) + 0.2))
    height = 100.0 / (top - _FLOOR)

    def up(value: float) -> float:
        power = top if math.isinf(value) else _FLOOR if value <= 0.0 else math.log10(value)
        return max(0.0, min(100.0, (power - _FLOOR) * height))

    wide = 100.0 / len(layers)
    size = min(0.8 * wide, 6.0)
    bars = []
    for number, layer in enumerate(layers):
        if math.isnan(layer.worst):
            continue
        left, middle, tall = (number + 0.5) * wide - size / 2, up(layer.median), max(0.6, up(layer.worst))
        label = f"{layer.title}: {figure(layer.worst)} times the bound, median {figure(layer.median)}"
        bars.append(
            f'<a href="#layer-{number}" tabindex="-1"><title>{text(label)}</title>'
            f'<rect class="bar-{layer.status}" x="{left:.3f}" y="{100 - tall:.2f}" width="{size:.3f}" '
            f'height="{tall:.2f}"/><line class="median" x1="{left:.3f}" x2="{left + size:.3f}" '
            f'y1="{100 - middle:.2f}" y2="{100 - middle:.2f}"/></a>'
        )
    ticks = [power for power in range(_FLOOR, top + 1) if power % _every(top) == 0]
    lines = "".join(
        f'<line class="{"bound" if power == 0 else "tick"}" x1="0" x2="100" y1="{100 - (power - _FLOOR) * height:.2f}" '
        f'y2="{100 - (power - _FLOOR) * height:.2f}"/>'
        for power in ticks
    )
    labels = "".join(
        f'<span style="bottom:{(power - _FLOOR) * height:.2f}%">{"1" if power == 0 else f"1e{power}"}</span>'
        for power in ticks
    )
    summary = f"Error by layer over the bound: {len(layers)} layers, the worst {figure(max([*finite, 0.0]))}"
    return (
        f'<div class="card"><div class="chart"><div class="axis" aria-hidden="true">{labels}</div>'
        f'<svg role="img" aria-label="{text(summary)}" viewBox="0 0 100 100" preserveAspectRatio="none">'
        f"{lines}{''.join(bars)}</svg></div>"
        f'<div class="legend"><span><i class="key-pass"></i>worst, agrees</span><span><i class="key-fail"></i>worst, '
        f'differs</span><span><i class="key-median"></i>median</span><span><i class="key-bound"></i>the bound</span>'
        "</div></div>"
    )


def _every(top: int) -> int:
    """How many powers of ten lie between two labels."""
    return next(step for step in (1, 2, 3, 4, 6, 12, 400) if (top - _FLOOR) / step <= 9)


def _layer(number: int, layer: Layer) -> str:
    """One layer: a fold with its figures, its cause, the weights that differ and the smallest input."""
    shown = "error" if layer.status == "error" else "equal" if layer.message == "equal" else figure(layer.worst)
    failed = layer.status != "pass"
    mark = "✕ " if failed else ""
    other = f"<dt>in B</dt><dd>{text(layer.other)}</dd>" if layer.other and layer.other != layer.name else ""
    cause = f"<dt>because</dt><dd>{text(layer.cause or _UNKNOWN)}</dd>" if layer.status == "fail" else ""
    told = f"<dt>in full</dt><dd>{text(layer.message)}</dd>" if layer.message else ""
    differing = "".join(f"<dt>{text(one.weight)}</dt><dd>{text(one.says)}</dd>" for one in layer.unequal)
    smallest = "" if layer.example is None else example(layer.example, layer.title)
    return (
        f'<details class="layer"><summary><span class="cell {shade(layer.status, layer.worst)}'
        f'{" bold" * failed}">{mark}{shown}</span><span class="wrap">{text(layer.title)}</span>'
        f'<span class="muted">{_SAID[layer.status]}</span></summary>'
        f'<div id="layer-{number}" class="inside"><dl class="facts">{other}<dt>dtype</dt><dd>{text(layer.dtype)}</dd>'
        f"<dt>worst</dt><dd>{figure(layer.worst)} of the bound</dd><dt>median</dt><dd>{figure(layer.median)}</dd>"
        f"{cause}{differing}{told}</dl>{smallest}</div></details>"
    )
