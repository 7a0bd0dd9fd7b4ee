"""`portable-ffn apply`: a layer of a checkpoint over a file that need not fit into memory."""

import argparse
import json
import os
import sys

from portable_ffn.command import CannotRun
from portable_ffn.command._apply.memory import parse_size
from portable_ffn.command._apply.run import apply
from portable_ffn.command._arguments import add_facts, facts_of
from portable_ffn.command._words import as_options, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `portable-ffn apply`."""
    parser.description = (
        "Apply one feed-forward layer of a checkpoint to every row of a file, block by block. The output takes its "
        "name when it is whole; a run that was stopped goes on where it stood when the same command is given again."
    )
    parser.add_argument("model", metavar="MODEL", help="a checkpoint: a directory, an index, or a file")
    parser.add_argument("--layer", type=int, default=0, metavar="N", help="the layer's number (0)")
    parser.add_argument("--stack", help='the stack that it is in, such as "encoder"')
    parser.add_argument("--name", help="the layer's name, as `portable-ffn inspect` lists it, instead of its number")
    parser.add_argument(
        "--input", required=True, metavar="X", help="x, (..., d_model): an .npy file or a .zarr directory"
    )
    parser.add_argument(
        "--output",
        required=True,
        metavar="Y",
        help="y, (..., d_model), of the same format; a finished .npy takes the place of one that is there",
    )
    parser.add_argument(
        "--memory",
        type=_size,
        default="256MiB",
        metavar="SIZE",
        help="what arrays and weights may take, beside the interpreter and its libraries (256MiB)",
    )
    parser.add_argument(
        "--dtype",
        choices=("float16", "float32", "float64"),
        help="cast x and the weights to it (the widest among them, as feed_forward has it)",
    )
    add_facts(parser)
    parser.add_argument("--json", action="store_true", help="print what was done as one JSON document")


def run(args: argparse.Namespace) -> int:
    """0 when the output is whole, 130 when the run was interrupted; CannotRun where it can't be made."""
    try:
        done = apply(
            args.model,
            args.input,
            args.output,
            layer=args.layer,
            stack=args.stack,
            name=args.name,
            memory=args.memory,
            dtype=args.dtype,
            facts=facts_of(args),
        )
    except CannotRun as error:
        raise CannotRun(as_options(str(error))) from None
    except MemoryError as error:
        raise CannotRun(f"there is not enough memory: {error}; give less with --memory") from None
    except OSError as error:
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        raise CannotRun(f"{where}{error.strerror or error}") from None
    except KeyboardInterrupt:
        print("portable-ffn apply: interrupted; the same command goes on where this stood", file=sys.stderr)
        return 130
    if args.json:
        print(json.dumps(done, indent=2))
    else:
        again = f", {done['rows_resumed']} of them by an earlier run" if done["rows_resumed"] else ""
        say(
            f"{done['output']}: {done['rows']} rows through {done['layer']}{again}, shape "
            f"{tuple(done['shape'])}, {done['dtype']}"
        )
    return 0


def _size(text: str) -> int:
    """A size of memory, for argparse."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
