"""What was checked, and how it can be checked again."""

import inspect
import os
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from portable_ffn import __version__


class Run(NamedTuple):
    """One run of a check: its subject by name, what to import to have it again, and what else decides the outcome."""

    subject: str = ""
    importable: tuple[str, str] | None = None
    facts: tuple[tuple[str, str], ...] = ()


NO_RUN = Run()


def run_of(fn: Callable[..., Any], **options: Any) -> Run:
    """The run of a function or module that was called with these options."""
    inner, given = fn, ""
    while isinstance(inner, partial):
        named = [f"{name}={value!r}" for name, value in inner.keywords.items()]
        given = f" with {', '.join([*map(repr, inner.args), *named])}{given}"
        inner = inner.func
    # A callable object is told by its class.
    code = inner if inspect.isroutine(inner) or inspect.isclass(inner) else type(inner)
    name = f"{_public(getattr(code, '__module__', '?'))}.{getattr(code, '__qualname__', repr(code))}"
    reachable = "<" not in name and code is inner and not given
    importable = (str(code.__module__), str(code.__qualname__)) if reachable and "." not in code.__qualname__ else None
    return Run(f"{name}{given}{_place(code)}", importable, _facts(options))


def run_of_model(path: str | os.PathLike[str], **options: Any) -> Run:
    """The run over the layers of a checkpoint."""
    return Run(f"the checkpoint {os.fspath(path)}", None, _facts(options))


def _public(module: str) -> str:
    """A module up to its first private part: where its user imports from."""
    first, *rest = module.split(".")
    return ".".join([first, *takewhile(lambda part: not part.startswith("_"), rest)])


def _place(code: Any) -> str:
    """Where a function stands, as its user would name the file; nothing where it was typed in."""
    try:
        file = Path(inspect.getsourcefile(code) or "")
        line = inspect.getsourcelines(code)[1]
    except (OSError, TypeError):
        return ""
    here = Path.cwd()
    return f" ({file.relative_to(here) if file.is_relative_to(here) else file}:{line})"


def _facts(options: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """What decides the outcome beside the subject: options that were given, versions, the day."""
    given = [(name, value if isinstance(value, str) else repr(value)) for name, value in options.items()]
    versions = [("portable_ffn", __version__), ("Python", platform.python_version()), ("system", platform.platform())]
    return (*given, *versions, ("date", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")))
