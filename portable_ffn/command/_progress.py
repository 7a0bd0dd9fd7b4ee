"""Progress on stderr: a moving line where rich is there and somebody watches, else a line now and then."""

import contextlib
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator

from portable_ffn.testing import Row

_SECONDS = 5.0


@contextlib.contextmanager
def shown() -> Iterator[Callable[[Row], None]]:
    """What is to be called with each row."""
    if sys.stderr.isatty() and importlib.util.find_spec("rich"):
        with _moving() as show:
            yield show
    else:
        yield _now_and_then()


@contextlib.contextmanager
def _moving() -> Iterator[Callable[[Row], None]]:
    """One line that is overwritten."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting")
        tell = _Told()
        yield lambda row: progress.update(task, description=tell(row))


def _now_and_then() -> Callable[[Row], None]:
    """A line every few seconds."""
    tell = _Told()
    last = time.monotonic()

    def show(row: Row) -> None:
        nonlocal last
        text = tell(row)
        if time.monotonic() - last >= _SECONDS:
            last = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    return show


class _Told:
    """How far it is, in words."""

    def __init__(self) -> None:
        self.rows = self.bad = 0

    def __call__(self, row: Row) -> str:
        """The rows so far, with this one."""
        self.rows += 1
        self.bad += row.status in ("fail", "error")
        bad = f", {self.bad} not passed" if self.bad else ""
        return f"{self.rows} rows{bad}: {row.backend} {row.device} {row.dtype}, {row.activation}, {row.case}"
