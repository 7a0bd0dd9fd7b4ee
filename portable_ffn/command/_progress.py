"""Progress on stderr: a moving line where rich is there and somebody watches, else a line now and then."""

import contextlib
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator

from portable_ffn.testing import Row

_SECONDS = 5.0


@contextlib.contextmanager
def shown(told: Callable[..., str] | None = None) -> Iterator[Callable[..., None]]:
    """What is to be called with each row, or with whatever `told` puts into words.

    Inside, what somebody's function or module prints goes to stderr: stdout is for the report alone.
    """
    tell = told or _Told()
    with contextlib.redirect_stdout(sys.stderr):
        if sys.stderr.isatty() and importlib.util.find_spec("rich"):
            with _moving(tell) as show:
                yield show
        else:
            yield _now_and_then(tell)


@contextlib.contextmanager
def _moving(tell: Callable[..., str]) -> Iterator[Callable[..., None]]:
    """One line that is overwritten."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting")
        yield lambda *what: progress.update(task, description=tell(*what))


def _now_and_then(tell: Callable[..., str]) -> Callable[..., None]:
    """A line every few seconds."""
    last = time.monotonic()

    def show(*what: object) -> None:
        nonlocal last
        text = tell(*what)
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
