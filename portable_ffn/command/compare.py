"""`portable-ffn compare`: two checkpoints, or a checkpoint and a function, layer by layer."""

import argparse
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from portable_ffn.command import CannotRun
from portable_ffn.command._arguments import add_facts, facts_of, imported, natural
from portable_ffn.command._progress import shown
from portable_ffn.command._terminal import say_text
from portable_ffn.command._words import as_options, say
from portable_ffn.testing import BACKENDS, Comparison, Layer, compare_models


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand."""
    parser.description = (
        "Compare two models layer by layer on the same inputs, in units of what rounding can do: the error of each "
        "layer of B against the oracle of A, the first layer that differs, and why."
    )
    kinds = "a checkpoint: a directory, an index, or a file"
    parser.add_argument("a", metavar="A", help=f"{kinds}; it says what is meant")
    parser.add_argument(
        "b",
        metavar="B",
        help=f"{kinds}; or package.module:function(x, W1, b1, W2, b2[, V, c]), or path/file.py:function",
    )
    parser.add_argument("--layer", type=int, metavar="N", help="this layer alone")
    parser.add_argument("--inputs", metavar="FILE", help="what enters each layer: layers.N.x in safetensors")
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="of random inputs (0)")
    parser.add_argument(
        "--dtype",
        choices=("float64", "float32", "float16", "bfloat16"),
        help="whose rounding is the unit (that of the files, the coarser of both)",
    )
    parser.add_argument(
        "--backend", default="numpy", metavar="NAME", help="the library whose arrays a function is given (numpy)"
    )
    add_facts(parser, sides=("a", "b"))
    parser.add_argument("--json", action="store_true", help="print the layers as one JSON document")
    parser.add_argument("--html", metavar="FILE", help="write a page that shows where to look")


def run(args: argparse.Namespace) -> int:
    """0 where all layers agree, 1 where something differs, 2 where it could not run."""
    comparison = _in_options(_compared(args))
    _tell_of_missing(args)
    if args.json:
        say(comparison.to_json())
    else:
        say_text(str(_short(comparison)))
    if args.html is not None:
        try:
            comparison.to_html(args.html)
        except OSError as error:
            raise CannotRun(f"--html {args.html} can't be written: {error.strerror}") from None
    undecided = _undecided(comparison)
    if undecided and not comparison.different:
        raise CannotRun(undecided)
    if undecided:
        say(f"portable-ffn compare: {undecided}", stderr=True)
    return 1 if comparison.different else 0 if comparison.passed else 2


def _in_options(comparison: Comparison) -> Comparison:
    """The comparison, its errors in the words of the command."""
    layers = (
        replace(layer, message=as_options(layer.message, sides=True)) if layer.status == "error" else layer
        for layer in comparison.layers
    )
    return replace(comparison, layers=tuple(layers))


def _short(comparison: Comparison) -> Comparison:
    """The same for the table, where what `_undecided` tells of a layer is not told again."""
    failed = [layer for layer in comparison.layers if layer.status == "error"]
    layers = (
        replace(layer, message="not compared") if layer in failed and _reason(layer) == _reason(failed[0]) else layer
        for layer in comparison.layers
    )
    return replace(comparison, layers=tuple(layers))


def _undecided(comparison: Comparison) -> str:
    """How many layers could not be compared, and what kept the first of them; empty where all were."""
    failed = [layer for layer in comparison.layers if layer.status == "error"]
    if not failed:
        return ""
    more = f"; nor can {len(failed) - 1} more of the {len(comparison.layers)} layers" if len(failed) > 1 else ""
    return f"{failed[0].title} can't be compared: {' '.join(failed[0].message.split())}{more}"


def _reason(layer: Layer) -> str:
    """What kept a layer from being compared, whichever layer it is."""
    return re.sub(r"\d+", "*", layer.message)


def _tell_of_missing(args: argparse.Namespace) -> None:
    """Say of each checkpoint which layers its config counts and its files lack, since nothing else shows that."""
    from portable_ffn.checkpoint._facts.given import Facts
    from portable_ffn.checkpoint._find import entries
    from portable_ffn.checkpoint._missing_layers import missing_layers
    from portable_ffn.checkpoint._tensors.store import open_store

    for side, path in (("A", args.a), ("B", args.b)):
        if isinstance(model(path, side), str):
            store = open_store(path)
            for told in missing_layers(entries(store, Facts()), store):
                say(f"portable-ffn compare: {side}, {path}: {told}", stderr=True)


def _compared(args: argparse.Namespace) -> Comparison:
    """The comparison; what keeps it from running is one line."""
    from portable_ffn.testing._inputs.layers import file_inputs

    if args.backend not in BACKENDS:
        raise CannotRun(f"--backend must be one of {', '.join(BACKENDS)}, got {args.backend!r}")
    missing = BACKENDS[args.backend].missing()
    if missing is not None:
        raise CannotRun(f"{args.backend} was asked for, but {missing}")
    try:
        inputs = None if args.inputs is None else file_inputs(args.inputs)
        with shown() as show:
            return compare_models(
                model(args.a, "A"),
                model(args.b, "B"),
                layer=args.layer,
                dtype=args.dtype,
                library=args.backend,
                inputs=inputs,
                seed=args.seed,
                facts_a=facts_of(args, "a"),
                facts_b=facts_of(args, "b"),
                progress=lambda *done: show(_told(*done), done[1] + 1, done[2]),
            )
    except (TypeError, ValueError, OSError) as error:  # of which CheckpointError is one
        raise CannotRun(as_options(str(error), sides=True)) from None


def model(spelled: str, side: str) -> str | Callable[..., Any]:
    """A path as it is; what is none and spelled package.module:function, that function."""
    if not Path(spelled).expanduser().exists() and re.fullmatch(r"(\w+(\.\w+)*|.+\.py):\w+(\.\w+)*", spelled):
        return imported(spelled, side)
    return spelled


def _told(layer: Layer, number: int, count: int) -> str:
    """How far it is, in words."""
    worst = "" if layer.status == "error" else f": {layer.worst:.3g} times the bound"
    return f"{number + 1} of {count} layers: {layer.title}{worst}"
