"""The cost of quantisation as a picture: a group of bars for each layer, a bar for each matrix and the outputs."""

import math
from collections.abc import Sequence

from portable_ffn.testing._models.layer import Layer
from portable_ffn.testing._report.page import text

# Colours that are told apart by those who see red and green alike (Okabe and Ito 2008), the outputs last.
_COLOURS = {"W1": "#0072B2", "W2": "#56B4E9", "V": "#009E73", "outputs": "#D55E00"}


def losses(layers: Sequence[Layer]) -> str:
    """The section; empty where nothing is quantised."""
    found = [layer for layer in layers if layer.loss is not None]
    if not found:
        return ""
    rows = [(layer, _shares(layer)) for layer in found]
    top = max([share for _, shares in rows for share in shares.values() if math.isfinite(share)], default=0.0) or 1.0
    wide = 100.0 / len(rows)
    bars = []
    for number, (layer, shares) in enumerate(rows):
        size = 0.8 * wide / max(len(shares), 1)
        for place, (name, share) in enumerate(shares.items()):
            left = number * wide + 0.1 * wide + place * size
            tall = 100.0 if not math.isfinite(share) else 100.0 * share / top
            bars.append(
                f'<g><title>{text(f"{layer.title}, {name}: {100 * share:.3g} %")}</title><rect x="{left:.3f}" '
                f'y="{100 - tall:.2f}" width="{0.9 * size:.3f}" height="{tall:.2f}" fill="{_COLOURS[name]}"/></g>'
            )
    label = f"What quantisation costs {len(rows)} layers, {100 * top:.3g} % at most"
    names = [name for name in _COLOURS if any(name in shares for _, shares in rows)]
    keys = "".join(f'<span><i style="background:{_COLOURS[name]}"></i>{name}</span>' for name in names)
    cells = "".join(
        f"<tr><td>{text(layer.title)}</td><td>{text(_formats(layer))}</td>"
        + "".join(f"<td>{100 * shares[name]:.3g} %</td>" if name in shares else "<td></td>" for name in names)
        + "</tr>"
        for layer, shares in rows
    )
    heads = "".join(f"<th>{name}</th>" for name in names)
    return (
        f'<h2>What quantisation costs</h2><p class="muted">How far B is from A, as a share of A: each matrix, and the '
        f'outputs. The highest bar is {100 * top:.3g} %.</p><div class="card"><div class="chart">'
        f'<svg role="img" aria-label="{text(label)}" viewBox="0 0 100 100" preserveAspectRatio="none">{"".join(bars)}'
        f'</svg></div><div class="legend">{keys}</div><table><tr><th>layer</th><th>format</th>{heads}</tr>{cells}'
        "</table></div>"
    )


def _shares(layer: Layer) -> dict[str, float]:
    """The bars of one layer: its matrices and its outputs."""
    assert layer.loss is not None
    matrices = {name: share for name, share in layer.loss.weights.items() if name in _COLOURS}
    return {**matrices, "outputs": layer.loss.outputs}


def _formats(layer: Layer) -> str:
    """The formats of both sides."""
    assert layer.loss is not None
    return " against ".join(kind or "plain" for kind in (layer.loss.a, layer.loss.b))
