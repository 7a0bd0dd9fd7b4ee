"""Errors about an argument: their parts can be read, so that nobody has to take the text apart."""

from typing import TypeVar

Refusal = TypeVar("Refusal", bound=Exception)


def refusal(kind: type[Refusal], argument: str, statement: str, advice: str = "") -> Refusal:
    """An error that says "argument statement; advice" and has the three as attributes.

    The statement is what must hold and what came, the advice what to do; it may be empty.
    """
    error = kind(f"{argument} {statement}" + (f"; {advice}" if advice else ""))
    vars(error).update(argument=argument, statement=statement, advice=advice)
    return error
