"""What a terminal gets beyond plain text where rich is installed: tables that fold, and the colour of a verdict.

A pipe, a file and a terminal under NO_COLOR get no colour; a pipe and a file get no table either, but plain lines.
"""

import importlib.util
import os
import re
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from portable_ffn.checkpoint._visible import visible
from portable_ffn.command._words import say

if TYPE_CHECKING:
    from rich.console import Console

# Whole lines of a text, and cells of a table, by how they begin.
_LINES = (
    (re.compile(r"passed\b"), "bold green"),
    (re.compile(r"not passed\b"), "bold red"),
    (re.compile(r"\s*because: "), "cyan"),
    (re.compile(r"(note|warning): "), "yellow"),
    (re.compile(r"(grounds|not understood)$"), "bold"),
)
_CELLS = (
    (re.compile(r"(pass|agrees)\b"), "green"),
    (re.compile(r"(fail|error|DIFFERS)\b"), "bold red"),
    (re.compile(r"(gap|not found)\b"), "yellow"),
)
_NUMBER = re.compile(r"[-?]|[<>~]?[\d.,e+]+( ?[kMGT]|%)?")
# Of a table in a text: columns with two spaces or more between them.
_BETWEEN = re.compile(r"\s{2,}")
_FEWEST = 4


def say_table(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> bool:
    """Draw a table on a terminal; False where there is none, and nothing is printed."""
    console = _console()
    if console is None:
        return False
    from rich.table import Table
    from rich.text import Text

    shown = [[visible(cell) for cell in row] for row in cells]
    many, widths = folded(list(headings), shown, console.width)
    table = Table(show_lines=many > 1)
    for at, width in zip(range(0, len(headings), many), widths, strict=True):
        right = many == 1 and all(_NUMBER.fullmatch(row[at]) for row in shown)
        stacked = "\n".join(headings[at : at + many])
        table.add_column(stacked, width=width, overflow="fold", justify="right" if right else "left")
    for row in shown:
        pieces = [[Text(cell, _style(cell, _CELLS)) for cell in row[i : i + many]] for i in range(0, len(row), many)]
        table.add_row(*(Text("\n").join(piece) for piece in pieces))
    console.print(table)
    return True


def folded(headings: list[str], cells: list[list[str]], room: int) -> tuple[int, list[int]]:
    """How many columns stand one below the other for the table to fit, and how wide the stacks are; no word is cut.

    Where not even one stack fits, it has the room that there is, and its words are broken.
    """
    columns = list(zip(headings, *cells, strict=True))
    for many in range(1, len(columns) + 1):
        stacks = [sum(columns[i : i + many], ()) for i in range(0, len(columns), many)]
        least = [max(len(word) for text in stack for word in text.split() or [""]) for stack in stacks]
        most = [max(map(len, stack)) for stack in stacks]
        left = room - sum(least) - 3 * len(stacks) - 1
        if left >= 0:
            for _ in range(left):  # each column of room goes where the most is lacking
                lacking = max(range(len(stacks)), key=lambda i: most[i] - least[i])
                least[lacking] += most[lacking] > least[lacking]
            return many, least
    return len(columns), [max(1, room - 4)]


def say_text(text: str) -> None:
    """Print a text of several lines: on a terminal its table drawn, long lines indented, verdicts in their colour."""
    console = _console()
    if console is None:
        say(text)
        return
    from rich.text import Text

    lines = visible(text, lines=True).split("\n")
    while lines:
        table = _table_at_the_start(lines)
        if table:
            say_table(table[0], table[1:])
            del lines[: len(table)]
            continue
        line = lines.pop(0)
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        wide = max(20, console.width)
        parts = textwrap.wrap(
            line, wide, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )  # so that a path stays one word
        for part in parts or [""]:
            console.print(Text(part, _style(line, _LINES)), soft_wrap=True)


def _table_at_the_start(lines: list[str]) -> list[list[str]]:
    """The rows of a plain table that the lines begin with, its headings first; none where they begin otherwise."""
    table: list[list[str]] = []
    for line in lines:
        row = _BETWEEN.split(line)
        if line.startswith(" ") or len(row) < _FEWEST or (table and len(row) != len(table[0])):
            break
        table.append(row)
    return table if len(table) > 1 else []


def _style(text: str, styles: Sequence[tuple[re.Pattern[str], str]]) -> str:
    """The style of a text that begins so; none for the others."""
    return next((style for pattern, style in styles if pattern.match(text)), "")


def _console() -> "Console | None":
    """The terminal that stdout is, where rich is installed to draw on it."""
    if not sys.stdout.isatty() or importlib.util.find_spec("rich") is None:
        return None
    from rich.console import Console

    plain = bool(os.environ.get("NO_COLOR"))
    return Console(highlight=False, markup=False, color_system=None if plain else "auto")
