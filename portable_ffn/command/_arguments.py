"""What several commands take, declared once: facts of a checkpoint, numbers, somebody's function."""

import argparse
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from portable_ffn.command import CannotRun

# A fact of a checkpoint -> the words that it may have (any where there are none), and what it says.
FACTS: dict[str, tuple[tuple[str, ...] | None, str]] = {
    "activation": (None, "the activation"),
    "gate": (("first", "second", "interleaved"), "where a fused matrix has the gate"),
    "layout": (("in_out", "out_in"), "how matrices lie"),
}


def add_facts(parser: argparse.ArgumentParser, sides: Sequence[str] = ()) -> None:
    """--activation, --gate and --layout; with `sides` each of them for either model, as --gate-a."""
    for side in sides or ("",):
        for fact, (choices, meaning) in FACTS.items():
            option = f"--{fact}-{side}" if side else f"--{fact}"
            whose = f"{side.upper()} doesn't say" if side else "the checkpoint doesn't say"
            metavar = None if choices else "NAME"
            parser.add_argument(option, choices=choices, metavar=metavar, help=f"{meaning}, where {whose}")


def facts_of(args: argparse.Namespace, side: str = "") -> dict[str, str]:
    """The facts that were given."""
    suffix = f"_{side}" if side else ""
    return {fact: given for fact in FACTS if (given := getattr(args, fact + suffix)) is not None}


def natural(word: str) -> int:
    """A whole number, zero or more."""
    if not word.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number, zero or more, got {word!r}")
    return int(word)


def positive(word: str) -> int:
    """A whole number, one or more."""
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, one or more, got {word!r}")
    return int(word)


def imported(spelled: str, argument: str = "--ffn") -> Callable[..., Any]:
    """The function that is spelled package.module:function, from the current directory too, or path/file.py:function.

    Raises CannotRun with what went wrong in one line, the error of the module itself included.
    """
    module, colon, path = spelled.rpartition(":")
    if not (module and colon and path):
        file = "; a function of a file is path/file.py:function"
        raise CannotRun(f"{argument} must be spelled package.module:function, got {spelled!r}{file}")
    try:
        found = _of_file(module) if module.endswith(".py") else _of_name(module)
    except (Exception, SystemExit) as error:  # a module that ends the process at import has not been checked
        raise CannotRun(f"{argument} {spelled}: {module} can't be imported: {type(error).__name__}: {error}") from None
    for name in path.split("."):
        if not hasattr(found, name):
            raise CannotRun(f"{argument} {spelled}: {module} has no {path}")
        found = getattr(found, name)
    if not callable(found):
        raise CannotRun(f"{argument} {spelled} must be a function, got {type(found).__name__}")
    function: Callable[..., Any] = found
    return function


def _of_name(module: str) -> Any:
    """A module by its name, from the current directory too."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    return importlib.import_module(module)


def _of_file(path: str) -> Any:
    """A module by its file, with the files beside it to be imported as in a script."""
    file = Path(path).expanduser().resolve(strict=True)
    if (folder := str(file.parent)) not in sys.path:
        sys.path.insert(0, folder)
    name = file.stem
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(file):
        return known
    if known is not None:  # a module of that name is somebody else's
        name = f"_file_{name}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where pickle and dataclasses look for it
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
