"""What the library advises in its arguments, in the words of the command: --activation gelu, not activation="gelu".

And how a command says anything: through `say`, so that no text out of a file works on a terminal.
"""

import logging
import re
import sys
from typing import TextIO

from portable_ffn.checkpoint._visible import visible

_ARGUMENT = re.compile(r"""\b(activation|gate|layout|stack|name)=(?:"([\w-]+)"|'([\w-]+)')?(?![\w\[({])""")
# A gate with numbers of its own can't be spelled on a command line.
_OBJECT = re.compile(r"\b([Pp])ass (activation=[^;]*\w+Gate\()")
# The library's word for what was given, where a message begins with it.
_SUBJECT = re.compile(r"\A(activation|gate|layout|layer|stack|name)(?= must )")
_FACTS = ("activation", "gate", "layout")


def say(text: object, *, stderr: bool = False) -> None:
    """Print a text; what in it can't be seen stands as an escape."""
    to: TextIO = sys.stderr if stderr else sys.stdout
    print(visible(str(text), lines=True), file=to)


class _Visible(logging.Formatter):
    """Records in a line each, with nothing in them that works on a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return visible(super().format(record))


def log_to_stderr(verbose: int) -> None:
    """Have the records of this package on stderr: what is read and decided, from the second `v` on what is touched."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Visible("%(name)s: %(message)s"))
    logger = logging.getLogger("portable_ffn")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO if verbose == 1 else logging.DEBUG)


def as_options(message: str, *, sides: bool = False) -> str:
    """A message of the library's with its arguments as options; `sides` where each fact has one of either model."""
    found = _OBJECT.search(message)
    if found:
        return _OBJECT.sub(lambda match: f"{'I' if match[1] == 'P' else 'i'}n Python, pass {match[2]}", message)

    def option(match: re.Match[str]) -> str:
        value = match[2] or match[3] if match.re is _ARGUMENT else None
        both = "-a/-b" if sides and match[1] in _FACTS else ""
        return f"--{match[1]}{both}" + (f" {value}" if value else "")

    return _SUBJECT.sub(option, _ARGUMENT.sub(option, message))


def one_line(error: BaseException) -> str:
    """What an error says, in one line; of a list, the first few."""
    if isinstance(error, OSError) and error.strerror and not isinstance(error, FileNotFoundError):
        return error.strerror
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    more = " ..." if len(lines) > 7 else ""
    return " ".join(lines[:1] + [", ".join(lines[1:7])] * (len(lines) > 1)) + more
