"""The two errors of a checkpoint: it can't be read, or it doesn't say enough."""

from portable_ffn.checkpoint._visible import visible


class CheckpointError(ValueError):
    """A checkpoint that is damaged, of a format that is not read, or that contradicts itself.

    Its message quotes names out of files; what in them can't be seen stands in it as an escape.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(visible(message))


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
