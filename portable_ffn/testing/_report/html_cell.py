"""What one cell of a heat map found: its verdict, why, the smallest input that shows it, and every case."""

import re

from portable_ffn.testing._measure.example import Example
from portable_ffn.testing._report.page import figure, numbers, text
from portable_ffn.testing._report.rows import Row


def details(panel: str, place: str, network: str, rows: tuple[Row, ...]) -> str:
    """The panel that a cell opens."""
    failed = [row for row in rows if row.status == "fail"]
    causes = dict.fromkeys(cause for row in failed for cause in row.causes)
    because = f"<dt>because</dt><dd>{'<br>or '.join(map(text, causes))}</dd>" if causes else ""
    facts = f"<dt>verdict</dt><dd>{text(_verdict(rows))}</dd>{because}"
    return (
        f'<div popover id="{panel}" aria-labelledby="{panel}-title"><div class="head">'
        f'<h3 id="{panel}-title">{text(place)}, {text(network)}</h3>'
        f'<button type="button" class="close" popovertarget="{panel}" popovertargetaction="hide">close</button></div>'
        f'<dl class="facts">{facts}</dl>{_smallest(failed)}{_cases(rows)}</div>'
    )


def _verdict(rows: tuple[Row, ...]) -> str:
    """How many of the cases have which status."""
    statuses = [row.status for row in rows]
    return ", ".join(f"{statuses.count(status)} of {len(rows)} {status}" for status in dict.fromkeys(statuses))


def _smallest(failed: list[Row]) -> str:
    """The smallest input of all cases that fail."""
    shown = [(row.example, row.case) for row in failed if row.example is not None]
    if not shown:
        return ""
    found, case = min(shown, key=lambda one: (not one[0].alone, len(one[0].x)))
    return example(found, f"case {case!r}")


def example(found: Example, where: str) -> str:
    """An example in full."""
    position = f", position {found.position}" if found.position else ""
    alone = "alone it is enough" if found.alone else "seen among its neighbours"
    return (
        f'<div class="box"><p><strong>The smallest input that shows it</strong></p><dl class="facts">'
        f"<dt>x</dt><dd><code>{text(numbers(found.x))}</code></dd>"
        f"<dt>from</dt><dd>{text(where)}{text(position)}; {alone}</dd>"
        f"<dt>y[{found.feature}]</dt><dd><code>{found.got!r}</code></dd>"
        f"<dt>expected</dt><dd><code>{found.expected!r}</code> ± <code>{found.bound:.3g}</code></dd></dl></div>"
    )


def _cases(rows: tuple[Row, ...]) -> str:
    """Every case with its error; a message that differs in numbers alone is told once."""
    told: set[str] = set()
    lines = []
    for row in rows:
        kind = re.sub(r"-?\d[\d.e+-]*|\b(?:nan|inf)\b", "#", row.message)
        message = "" if kind in told else row.message
        told.add(kind)
        said = f'<br><span class="muted">{text(message)}</span>' if message else ""
        lines.append(
            f'<tr><td>{text(row.case)}</td><td class="number{" bad" * (row.status == "fail")}">{figure(row.worst)}</td>'
            f"<td>{text(row.status)}{said}</td></tr>"
        )
    return (
        f'<table class="cases"><thead><tr><th scope="col">case</th><th scope="col">error</th>'
        f'<th scope="col">outcome</th></tr></thead><tbody>{"".join(lines)}</tbody></table>'
    )
