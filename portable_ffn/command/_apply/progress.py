"""How far a run is, on stderr: a bar where a person looks on and rich is installed, else a line now and then."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

LINE_EVERY = 10.0
"""Seconds between two lines where stderr is no terminal."""


@contextmanager
def progress(label: str, rows: int) -> Iterator[Callable[[int], None]]:
    """A function that takes how many rows are done."""
    if sys.stderr.isatty():
        try:
            import rich  # noqa: F401
        except ImportError:
            pass
        else:
            with _bar(label, rows) as told:
                yield told
            return
    last = monotonic()

    def line(done: int) -> None:
        nonlocal last
        if done == rows or monotonic() - last >= LINE_EVERY:
            last = monotonic()
            percent = 100 * done // rows if rows else 100
            print(f"{label}: {done} of {rows} rows ({percent}%)", file=sys.stderr, flush=True)

    yield line


@contextmanager
def _bar(label: str, rows: int) -> Iterator[Callable[[int], None]]:
    """A bar of rich's with the time that is left."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=rows)
        yield lambda done: bar.update(task, completed=done)
