"""A report as one page that needs nothing else."""

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from portable_ffn.testing._report import Report


def page(report: "Report") -> str:
    """The table of a report, and each row that failed."""
    lines = "\n".join(_line("td", cells) for cells in report.summary())
    failures = "\n".join(
        _line("td", (row.backend, row.device, row.dtype, row.activation, row.case, row.cause, row.message))
        for row in report.failures()
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>portable_ffn: {"passed" if report.passed else "not passed"}</title>
<style>:root {{ color-scheme: light dark }} td, th {{ text-align: left; padding: 0 1em 0 0 }}</style></head><body>
<h1>{"Passed" if report.passed else "Not passed"}</h1>
<table>{_line("th", ("library", "device", "dtype", "error/bound", "verdict"))}
{lines}</table>
<h2>Rows that failed: {len(report.failures())}</h2>
<table>{_line("th", ("library", "device", "dtype", "activation", "case", "cause", "message"))}
{failures}</table>
</body></html>
"""


def _line(tag: str, cells: tuple[str, ...]) -> str:
    """One line of a table."""
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
