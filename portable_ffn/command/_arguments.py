"""What several commands take, declared once: facts of a checkpoint, numbers, somebody's function."""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
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
    """The function that is spelled package.module:function, from the current directory too.

    Raises CannotRun with what went wrong in one line, the error of the module itself included.
    """
    module, colon, path = spelled.partition(":")
    if not (module and colon and path):
        raise CannotRun(f"{argument} must be spelled package.module:function, got {spelled!r}")
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
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
