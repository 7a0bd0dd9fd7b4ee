"""The subcommands, each a module of `add_arguments(parser)` and `run(args)`."""


class CannotRun(Exception):
    """What was asked for can't be run; the message is one clear line. The command exits with 2."""
