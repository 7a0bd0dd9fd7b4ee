"""The frame of a page that is complete in itself: no script, no network, text that can't be anything else."""

import errno
import html
import math
import re
from pathlib import Path

# What may not stand in a text: controls, surrogates, and marks that turn the direction of what follows.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def text(value: object) -> str:
    """Any text as text of a page, or of one of its attributes."""
    return html.escape(_UNSEEN.sub(lambda found: f"\\x{ord(found.group()):02x}", str(value)), quote=True)


def figure(value: float) -> str:
    """A number in units of the bound in at most five characters, "-" where there is none."""
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "∞"
    if value >= 1000.0:
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    if value >= 10.0:
        return f"{value:.0f}"
    return "0" if value == 0.0 else f"{value:.2f}" if value >= 0.005 else "<0.01"


def shade(status: str, worst: float) -> str:
    """The class of a cell: how much of the bound is used, or how far beyond it is."""
    if status in ("error", "gap", "none"):
        return status
    limits = (0.1, 0.25, 0.5, math.inf) if status == "pass" else (10.0, 1000.0, math.inf)
    step = next((i for i, limit in enumerate(limits) if worst <= limit), 0)
    return f"{status}{step}"


def numbers(values: tuple[float, ...], at_most: int = 16) -> str:
    """A list of numbers as one would type it."""
    shown = ", ".join(map(repr, values[:at_most]))
    return f"[{shown}{', …' if len(values) > at_most else ''}]"


def write(path: str | Path, source: str) -> None:
    """Write a page; FileNotFoundError in plain words where its folder doesn't exist."""
    place = Path(path).expanduser()
    missing_folder(place)
    place.write_text(source, encoding="utf-8")


def missing_folder(place: Path) -> None:
    """Raise FileNotFoundError where the folder of a file to be written doesn't exist."""
    if not place.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"the folder {place.parent} doesn't exist; make it first", str(place))


def frame(title: str, body: str) -> str:
    """The whole page."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>{text(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


STYLE = """
:root {
  color-scheme: light dark;
  --page: #f6f7f8; --card: #ffffff; --ink: #1b2026; --muted: #5b6570; --line: #dde1e5; --focus: #1a5fd0;
  --good: #1f7a6d; --bad: #b3261e;
  --pass0: #e6f2f0; --pass1: #c9e5e0; --pass2: #a3d1c9; --pass3: #74b5ab; --on-pass: #10312c;
  --fail0: #f8cfc6; --fail1: #e98c79; --fail2: #b3261e; --on-fail: #3d0d08; --on-fail2: #ffffff;
  --gap: #ece6d3; --on-gap: #4a4023; --error: #563a7d; --on-error: #ffffff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #121518; --card: #1b1f24; --ink: #e6e9ec; --muted: #9aa4ae; --line: #31373e; --focus: #8ab4ff;
    --good: #6cc4b5; --bad: #ff8a78;
    --pass0: #1c302e; --pass1: #1f443f; --pass2: #255d55; --pass3: #2f7a6f; --on-pass: #dff5f0;
    --fail0: #5c2a22; --fail1: #93392a; --fail2: #e2553f; --on-fail: #ffe3dc; --on-fail2: #1d0502;
    --gap: #3b3626; --on-gap: #efe6c8; --error: #7d5fb0; --on-error: #ffffff;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink); line-height: 1.45;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; font-size: 15px;
}
main { max-width: 1240px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 26px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; }
h1 .mark { display: inline-block; min-width: 1.2em; }
h2 { font-size: 18px; margin: 36px 0 10px; }
h3 { font-size: 15px; margin: 0; }
p { margin: 4px 0; }
code, .number { font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 0.9em; }
.muted { color: var(--muted); }
.good { color: var(--good); } .bad { color: var(--bad); }
.wrap { overflow-wrap: anywhere; }
a { color: inherit; }
.grid { display: grid; gap: 16px; grid-template-columns: repeat(auto-fill, minmax(min(100%, 350px), 1fr)); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px; min-width: 0; }
.chips { display: flex; flex-wrap: wrap; gap: 6px; margin-top: 8px; }
button { font: inherit; color: inherit; cursor: pointer; border: 0; }
.chips button, .close {
  background: none; border: 1px solid var(--line); border-radius: 999px; padding: 2px 10px; font-size: 13px;
  max-width: 100%; overflow-wrap: anywhere; text-align: left;
}
.close { flex: none; white-space: nowrap; }
.chips button:hover, .close:hover { border-color: var(--muted); }
:focus-visible { outline: 3px solid var(--focus); outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; font-weight: 600; padding-bottom: 8px; overflow-wrap: anywhere; }
th, td { text-align: left; padding: 0; font-weight: 400; vertical-align: middle; }
thead th { color: var(--muted); font-size: 12px; padding: 0 4px 4px; text-align: center; }
thead th:first-child { text-align: left; padding-left: 0; }
.heat { table-layout: fixed; }
.heat th[scope=row] { font-size: 13px; padding-right: 6px; overflow-wrap: break-word; line-height: 1.2; }
.heat th small { display: block; color: var(--muted); font-size: 11px; }
.heat col:first-child { width: 34%; }
.heat td { padding: 1px; }
.cell {
  display: block; width: 100%; min-height: 30px; border-radius: 5px; padding: 4px 2px; text-align: center;
  font-variant-numeric: tabular-nums; font-size: 13px; white-space: nowrap;
}
.cell:hover { filter: brightness(0.96); }
.cell.bold { font-weight: 700; }
.pass0 { background: var(--pass0); } .pass1 { background: var(--pass1); } .pass2 { background: var(--pass2); }
.pass3 { background: var(--pass3); } .fail0 { background: var(--fail0); } .fail1 { background: var(--fail1); }
.fail2 { background: var(--fail2); color: var(--on-fail2); } .pass0, .pass1, .pass2, .pass3 { color: var(--on-pass); }
.fail0, .fail1 { color: var(--on-fail); } .error { background: var(--error); color: var(--on-error); }
.gap { background: var(--gap); color: var(--on-gap); } .none { color: var(--muted); text-align: center; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 14px; font-size: 13px; color: var(--muted); margin: 8px 0 14px; }
.legend span { display: inline-flex; align-items: center; gap: 6px; }
.legend i { width: 16px; height: 16px; border-radius: 4px; display: inline-block; }
[popover] {
  border: 1px solid var(--line); border-radius: 12px; background: var(--card); color: var(--ink); padding: 18px;
  width: min(640px, calc(100vw - 24px)); max-height: min(85vh, 760px); overflow: auto; overflow-wrap: anywhere;
  box-shadow: 0 12px 40px rgb(0 0 0 / 0.25);
}
[popover]::backdrop { background: rgb(0 0 0 / 0.35); }
.head { display: flex; gap: 12px; align-items: flex-start; justify-content: space-between; }
.facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 2px 12px; margin: 8px 0 0; }
.facts dt { color: var(--muted); } .facts dd { margin: 0; overflow-wrap: anywhere; }
.cases { margin-top: 12px; font-size: 13px; }
.cases td, .cases th { padding: 3px 8px 3px 0; border-top: 1px solid var(--line); vertical-align: top; }
.cases thead th { border: 0; text-align: left; }
.cases td:first-child, .cases th { overflow-wrap: normal; }
.cases .number { text-align: right; white-space: nowrap; }
.box { border-left: 3px solid var(--bad); padding: 2px 0 2px 12px; margin-top: 12px; }
.chart { display: grid; grid-template: 240px / 46px minmax(0, 1fr); margin: 10px 0 20px; }
.chart svg { width: 100%; height: 240px; display: block; overflow: visible; }
.axis { position: relative; font-size: 12px; color: var(--muted); font-variant-numeric: tabular-nums; }
.axis span { position: absolute; right: 8px; transform: translateY(50%); }
.chart line { vector-effect: non-scaling-stroke; stroke-width: 1; }
.tick { stroke: var(--line); } .bound { stroke: var(--ink); stroke-dasharray: 5 4; }
.median { stroke: var(--ink); stroke-width: 2; }
.bar-pass { fill: var(--pass3); } .bar-fail { fill: var(--fail2); } .chart a:hover rect { filter: brightness(1.1); }
.key-pass { background: var(--pass3); } .key-fail { background: var(--fail2); }
.legend .key-median { height: 0; border-top: 2px solid var(--ink); border-radius: 0; }
.legend .key-bound { height: 0; border-top: 1px dashed var(--ink); border-radius: 0; }
.layer { background: var(--card); border: 1px solid var(--line); border-radius: 8px; margin-top: 6px; }
.layer summary {
  display: grid; grid-template-columns: 76px minmax(0, 1fr) max-content; gap: 12px; align-items: center;
  padding: 5px 12px 5px 6px; cursor: pointer; list-style: none; border-radius: 8px;
}
.layer summary::-webkit-details-marker { display: none; }
.layer .inside { padding: 4px 14px 14px; scroll-margin-top: 60px; }
@media (max-width: 480px) {
  main { padding: 20px 12px 48px; }
  .card, [popover] { padding: 12px; }
  .heat col:first-child { width: 29%; }
  .cell { font-size: 12px; padding-left: 0; padding-right: 0; }
  .layer summary { grid-template-columns: 62px minmax(0, 1fr) max-content; gap: 9px; }
}
.subject { font-size: 16px; font-weight: 600; }
.columns { columns: 3 320px; column-gap: 14px; }
.columns .card { break-inside: avoid; margin-bottom: 14px; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 500px), 1fr)); gap: 14px;
  align-items: start; }
.plot { width: 100%; height: auto; display: block; margin-top: 8px; font-size: 12px; }
.plot text { fill: var(--muted); font-family: inherit; }
.plot line { stroke-width: 1; }
.meant { fill: none; stroke: var(--pass3); stroke-width: 5; stroke-linejoin: round; }
.found { fill: none; stroke: var(--fail2); stroke-width: 1.6; stroke-linejoin: round; }
.legend .key-meant { height: 5px; border-radius: 0; background: var(--pass3); }
.legend .key-found { height: 2px; border-radius: 0; background: var(--fail2); }
.dot-pass { fill: var(--pass3); } .dot-gap { fill: var(--on-gap); }
.dot-fail { fill: none; stroke: var(--fail2); stroke-width: 1.8; }
.scroll { overflow-x: auto; }
pre { margin: 10px 0 0; overflow-x: auto; font-size: 13px; }
details.card { margin-top: 8px; } summary { cursor: pointer; }
/* On paper everything is open. */
@media print {
  [popover] { display: block; position: static; max-width: none; width: auto; max-height: none; overflow: visible;
    border: 1px solid var(--line); box-shadow: none; margin: 14px 0; break-inside: avoid; }
  details::details-content { content-visibility: visible; display: block; height: auto; }
  .close, .no-print { display: none; }
  .card, .layer { break-inside: avoid; }
  pre { white-space: pre-wrap; }
}
"""
