"""`portable-ffn check`: the matrix on this machine, for this package, somebody's function, or a model's layers."""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from portable_ffn import ACTIVATIONS, ClippedGate, feed_forward
from portable_ffn._activations.table import named
from portable_ffn.command import CannotRun
from portable_ffn.command._arguments import imported, natural
from portable_ffn.command._progress import Show, shown
from portable_ffn.command._terminal import say_text
from portable_ffn.command._words import as_options, say
from portable_ffn.testing import BACKENDS, Report, Row, check
from portable_ffn.testing._backends.select import select
from portable_ffn.testing._check_model import LIBRARIES
from portable_ffn.testing._inputs.cases import chosen as chosen_cases
from portable_ffn.testing._report.page import missing_folder

# What is run where no activation is asked for: two networks on every case, the others where they bend and where they
# end. Attention Is All You Need, LLaMA, GPT-OSS, then every name.
BOTH_ENDS = ("curve", "tails")
NETWORKS: tuple[tuple[Any, bool, bool, tuple[str, ...] | None], ...] = (
    ("relu", False, True, None),
    ("silu", True, False, None),
    (ClippedGate(7.0, 1.702, 1.0), True, True, BOTH_ENDS),
    *((name, False, True, BOTH_ENDS) for name in ACTIVATIONS if name != "relu"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand."""
    for option, several in (
        ("--backend", "a backend (`portable-ffn backends`)"),
        ("--device", "a device, such as cuda or cpu:0"),
        ("--dtype", "float64, float32, float16 or bfloat16"),
    ):
        parser.add_argument(option, action="append", metavar="NAME", help=f"{several}; again for more")
    parser.add_argument("--activation", metavar="NAME", help="the activation; what the model means, with --model")
    parser.add_argument("--gated", action="store_true", help="with the linear branch V, c")
    parser.add_argument("--no-bias", action="store_true", help="without biases")
    parser.add_argument("--strict", action="store_true", help="an array that the network doesn't take is a failure")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--ffn",
        metavar="MODULE:FUNCTION",
        help="check this function(x, W1, b1, W2, b2[, V, c]); a file's is path/file.py:function",
    )
    what.add_argument("--model", metavar="DIR", help="check the layers of this checkpoint with their own weights")
    parser.add_argument("--inputs", metavar="FILE", help="with --model: layers.N.x, and layers.N.y64, in safetensors")
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="of the random numbers (0)")
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON document")
    parser.add_argument("--html", metavar="FILE", help="write a page that shows where to look")


def run(args: argparse.Namespace) -> int:
    """0 where all agree, 1 where something differs, 2 where it could not run."""
    _refuse_missing(args)
    with shown() as show:
        progress = _Counting(show)
        if args.model is not None:
            report = _model(args, progress)
        elif args.ffn is not None:
            report = _function(args, progress)
        else:
            report = _ours(args, progress)
    if args.json:
        say(report.to_json())
    else:
        say_text(str(report))
    if args.html is not None:
        try:
            report.to_html(args.html)
        except OSError as error:
            raise CannotRun(f"--html {args.html} can't be written: {error.strerror}") from None
    # A network that raises everywhere could not run; one that raises somewhere differs.
    if all(row.status == "error" for row in report.rows):
        return 2
    return 0 if report.passed else 1


def _refuse_missing(args: argparse.Namespace) -> None:
    """What was asked for by name must be there."""
    if args.inputs is not None and args.model is None:
        raise CannotRun("--inputs are those of a model; give --model too")
    if args.model is not None and (args.gated or args.no_bias):
        raise CannotRun("--gated and --no-bias are facts of a model's weights; leave them out")
    if args.activation is not None and args.model is None:
        try:
            named(args.activation)
        except ValueError as error:
            raise CannotRun(as_options(str(error))) from None
    if args.html is not None:
        try:
            missing_folder(Path(args.html).expanduser())
        except OSError as error:
            raise CannotRun(f"--html {args.html} can't be written: {error.strerror}") from None
    try:
        selection = select(args.backend, args.device, args.dtype)
    except ValueError as error:
        raise CannotRun(str(error)) from None
    for name, reason in selection.missing.items():
        raise CannotRun(f"{name} was asked for, but {reason}")
    if not selection.places:
        raise CannotRun("nothing that was asked for is found here; see `portable-ffn backends`")


def _chosen(args: argparse.Namespace) -> dict[str, Any]:
    """The places that were asked for."""
    return {"backends": args.backend, "devices": args.device, "dtypes": args.dtype, "seed": args.seed}


def _ours(args: argparse.Namespace, progress: "_Counting") -> Report:
    """The network of this package: the one that was asked for, or the table."""
    asked = args.activation is not None or args.gated or args.no_bias
    one: tuple[Any, bool, bool, None] = (args.activation or "relu", args.gated, not args.no_bias, None)
    networks = (one,) if asked else NETWORKS
    chosen = _chosen(args)
    # What is run on few cases is run once a library: its other ways of running have the networks above.
    libraries = args.backend or [name for name in LIBRARIES if BACKENDS[name].missing() is None]
    for *_, cases in networks:
        progress.expect(args.backend if cases is None else libraries, args, cases)
    reports = [
        check(
            partial(feed_forward, activation=activation),
            activation=activation,
            gated=gated,
            bias=bias,
            cases=cases,
            progress=progress,
            **(chosen if cases is None else {**chosen, "backends": libraries}),
        )
        for activation, gated, bias, cases in networks
    ]
    rows = tuple(row for report in reports for row in report.rows)
    ran = tuple(network for report in reports for network in report.networks)
    return Report(rows, reports[0].versions, reports[0].absent, ran)


def _function(args: argparse.Namespace, progress: "_Counting") -> Report:
    """Somebody's function."""
    fn = imported(args.ffn)
    progress.expect(args.backend, args, None)
    try:
        return check(
            fn,
            activation=args.activation or "relu",
            gated=args.gated,
            bias=not args.no_bias,
            strict=args.strict,
            progress=progress,
            **_chosen(args),
        )
    except TypeError as error:
        raise CannotRun(f"--ffn {args.ffn}: {error}") from None


def _model(args: argparse.Namespace, progress: Callable[[Row], None]) -> Report:
    """The layers of a checkpoint."""
    from portable_ffn.checkpoint import CheckpointError
    from portable_ffn.testing._check_model import check_model
    from portable_ffn.testing._inputs.layers import file_inputs

    facts = {"activation": args.activation} if args.activation is not None else {}
    try:
        inputs = None if args.inputs is None else file_inputs(args.inputs)
        return check_model(args.model, inputs=inputs, progress=progress, **_chosen(args), **facts)
    except (CheckpointError, ValueError, OSError) as error:
        raise CannotRun(f"--model {args.model}: {as_options(str(error))}") from None


class _Counting:
    """How far a check is, in words."""

    def __init__(self, show: Show) -> None:
        self.show = show
        self.rows = self.bad = 0
        self.total: int | None = None

    def expect(self, backends: Sequence[str] | None, args: argparse.Namespace, cases: Sequence[str] | None) -> None:
        """So many rows more, of one network on its cases."""
        places = select(backends, args.device, args.dtype).places
        rows = sum(
            len(place.dtypes) * sum(case.first or not place.backend.slow for case in chosen_cases(cases))
            for place in places
        )
        self.total = (self.total or 0) + rows

    def __call__(self, row: Row) -> None:
        """One more row."""
        self.rows += 1
        self.bad += row.status in ("fail", "error")
        bad = f", {self.bad} not passed" if self.bad else ""
        what = f"{row.backend} {row.device} {row.dtype}, {row.activation}, {row.case}"
        of = "" if self.total is None else f" of {self.total}"
        self.show(f"{self.rows}{of} rows{bad}: {what}", self.rows, self.total)
