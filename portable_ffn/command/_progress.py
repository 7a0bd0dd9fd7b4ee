"""Progress on stderr: a bar where rich is there and somebody watches, else a line now and then."""

import contextlib
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator

SECONDS = 5.0
"""Between two lines, where there is no bar."""

Show = Callable[[str, int, int | None], None]
"""Takes what is being done in words, how many are done, and of how many where that is known."""


@contextlib.contextmanager
def shown(last: bool = False) -> Iterator[Show]:
    """What is to be called as the work goes on; `last` where the line of the end is always printed.

    Inside, what somebody's function or module prints goes to stderr: stdout is for the report alone.
    """
    with contextlib.redirect_stdout(sys.stderr):
        if sys.stderr.isatty() and importlib.util.find_spec("rich"):
            with _bar() as show:
                yield show
        else:
            yield _now_and_then(last)


@contextlib.contextmanager
def _bar() -> Iterator[Show]:
    """One line that is overwritten, and gone at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    words = TextColumn("{task.description}", markup=False)
    columns = SpinnerColumn(), words, BarColumn(20), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting", total=None)
        yield lambda text, done, total: progress.update(task, description=text, completed=done, total=total)


def _now_and_then(at_the_end: bool) -> Show:
    """A line every few seconds."""
    before = time.monotonic()

    def show(text: str, done: int, total: int | None) -> None:
        nonlocal before
        if time.monotonic() - before >= SECONDS or (at_the_end and done == total):
            before = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    return show
