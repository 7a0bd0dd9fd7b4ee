"""The subcommands, each a module of `add_arguments(parser)` and `run(args)`."""

# name -> what it does; its module is portable_ffn.command.NAME.
COMMANDS = {
    "check": "check a network, or the layers of a model, on every array library found",
    "backends": "list the array libraries that are found, and why others are not",
    "inspect": "list the feed-forward layers of a checkpoint",
    "compare": "compare two checkpoints, or a checkpoint with a function, layer by layer",
    "bench": "measure the network against its bare matrix products",
    "apply": "apply a layer of a checkpoint to a file of any size",
    "completion": "print the script with which bash, zsh or fish completes this command",
}


class CannotRun(Exception):
    """What was asked for can't be run; the message is one clear line. The command exits with 2."""
