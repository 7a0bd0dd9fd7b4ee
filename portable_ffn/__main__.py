"""The command `portable-ffn`: a table of subcommands, each in a module that is imported when it is asked for."""

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Sequence

from portable_ffn import __version__
from portable_ffn.command import COMMANDS, CannotRun


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; 0 where all is well, 1 where something differs, 2 where it could not run."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="portable-ffn",
        description="The Transformer feed-forward network on every array library.",
    )
    parser.add_argument("-V", "--version", action="version", version=f"portable-ffn {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    asked = next((word for word in given if not word.startswith("-")), None)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name == asked:
            module = importlib.import_module(f"portable_ffn.command.{name}")
            module.add_arguments(command)
            command.add_argument(
                "-v", "--verbose", action="count", default=0, help="log what is read and decided, and why"
            )
    if not given:
        parser.print_help(sys.stderr)
        raise SystemExit(2)
    parsed = parser.parse_args(given)
    if parsed.verbose:
        from portable_ffn.command._words import log_to_stderr

        log_to_stderr(parsed.verbose)
    if sys.stdout is None:  # closed by who called
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - it lasts as long as the process
    try:
        code = int(module.run(parsed))
        sys.stdout.flush()
        return code
    except CannotRun as error:
        from portable_ffn.command._words import say

        say(f"portable-ffn {parsed.command}: {error}", stderr=True)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _drop_output()  # the reader of a pipe has seen enough
        return 0
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG) or error.filename is not None:
            raise
        _drop_output()
        print(f"portable-ffn {parsed.command}: the output can't be written: {error.strerror}", file=sys.stderr)
        return 2


def _drop_output() -> None:
    """What is left in the buffer must not raise again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
