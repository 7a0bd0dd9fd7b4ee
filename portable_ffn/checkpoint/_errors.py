"""The two errors of a checkpoint: it can't be read, or it doesn't say enough."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from portable_ffn.checkpoint._visible import visible

LONGEST: Final = 1400
"""Characters of a message. Names out of a file can have any length; where a message begins and ends says the most."""


class CheckpointError(ValueError):
    """A checkpoint that is damaged, of a format that is not read, or that contradicts itself.

    Its message quotes names out of files; what in them can't be seen stands in it as an escape.
    """

    def __init__(self, message: str = "") -> None:
        message = visible(message)
        if len(message) > LONGEST:
            message = f"{message[:900]} ... {message[-400:]}"
        super().__init__(message)


class Undecided(CheckpointError):
    """A checkpoint that can mean two things; `argument` names the argument that settles it.

    Parameters
    ----------
    message : str
        What can't be told, and how to tell it.
    argument : str
        The argument of `find` and `load` that settles it: "gate", "layout" or "activation".
    """

    def __init__(self, message: str, argument: str) -> None:
        super().__init__(message)
        self.argument = argument

    def __reduce__(self) -> tuple[type["Undecided"], tuple[str, str]]:
        """Both arguments, so that the error survives a pickle between processes."""
        return type(self), (str(self), self.argument)


@contextmanager
def guarded(what: str) -> Iterator[None]:
    """Inside it a mistake of this library about a damaged file is a CheckpointError too, with the mistake as cause.

    The last door only: what a file can say wrongly is refused where it is read, in words of its own.
    """
    try:
        yield
    except CheckpointError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{what}: is damaged in a way that was not foreseen ({type(error).__name__}: {error}); please report it"
        ) from error
