"""`portable-ffn inspect`: the feed-forward layers of a checkpoint, the grounds, and what was not understood."""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from portable_ffn.checkpoint import CheckpointError
from portable_ffn.checkpoint._config.spellings import fact
from portable_ffn.checkpoint._entry import Entry
from portable_ffn.checkpoint._facts.given import Facts
from portable_ffn.checkpoint._find import entries as find_entries
from portable_ffn.checkpoint._loaded.network import Network
from portable_ffn.checkpoint._missing_layers import missing_layers
from portable_ffn.checkpoint._tensors.store import Store, open_store
from portable_ffn.command import CannotRun
from portable_ffn.command._arguments import add_facts, natural, positive
from portable_ffn.command._inspect.memories import Statistics, statistics
from portable_ffn.command._inspect.summary import (
    Row,
    bits,
    nbytes,
    not_understood,
    numbers,
    rows,
    told,
    total_parameters,
)
from portable_ffn.command._inspect.table import LayerStatistics, print_layers
from portable_ffn.command._words import as_options, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `portable-ffn inspect`."""
    parser.add_argument("path", metavar="PATH", help="a directory, an index of shards, or a file")
    add_facts(parser)
    parser.add_argument("--layer", type=int, metavar="N", help="only the layers of this number")
    parser.add_argument("--stack", help='only this stack, such as "encoder"')
    parser.add_argument(
        "--stats",
        action="store_true",
        help="load the layers and say how many of their hidden units are active, and which memories are the strongest",
    )
    parser.add_argument("--input", metavar="X", help="x for --stats, (..., d_model), an .npy file; else random")
    parser.add_argument("--tokens", type=positive, default=64, help="how many random tokens (64)")
    parser.add_argument("--seed", type=natural, default=0, help="the seed of the random tokens (0)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """0 where all that looks like a feed-forward layer is understood, 1 where something is not."""
    try:
        store = open_store(args.path)
        activation = None if args.activation is None else fact(args.activation)
        blocks = find_entries(store, Facts(activation, args.gate, args.layout))
        found = [network for entry in blocks for network in entry.networks]
    except (CheckpointError, OSError, ValueError) as error:
        raise CannotRun(as_options(str(error))) from None
    unread, warnings = not_understood(found, store), missing_layers(found, store)
    found = _asked_for(found, args)
    total = total_parameters(store)
    table = rows(found, total)
    stats = _statistics(found, args) if args.stats else []
    if args.json:
        json.dump(_document(store, found, table, total, unread, warnings, stats), sys.stdout, indent=1)
        print()
    else:
        print_layers(store, table, total, unread, warnings, stats, any_found=bool(found))
    return 1 if unread or any(entry.problem is not None for entry in found) else 0


def _asked_for(found: Sequence[Entry], args: argparse.Namespace) -> list[Entry]:
    """The layers that --layer and --stack choose; CannotRun that names those there are where they choose none."""
    chosen = [entry for entry in found if args.layer in (None, entry.layer) and args.stack in (None, entry.stack)]
    if found and not chosen:
        stacks = {stack: sorted({e.layer for e in found if e.stack == stack}) for stack in {e.stack: 0 for e in found}}
        given = [f"--{name} {value}" for name in ("layer", "stack") if (value := getattr(args, name)) is not None]
        raise CannotRun(
            f"{' and '.join(given)} must choose a layer of {args.path}, and there is no such one; it has "
            + ", ".join(f"stack {stack} (layers {numbers(layers)})" for stack, layers in stacks.items())
        )
    return chosen


def _statistics(found: Sequence[Entry], args: argparse.Namespace) -> list[LayerStatistics]:
    """The statistics of every layer that can be loaded; empty ones where its weights are not all finite."""
    given = _input(args.input)
    done: list[LayerStatistics] = []
    for entry in found:
        if entry.problem is not None or entry.d_model is None:
            continue
        x = given
        if x is None:
            x = np.random.default_rng(args.seed).standard_normal((args.tokens, entry.d_model)).astype(np.float32)
        if x.shape[-1] != entry.d_model:
            raise CannotRun(
                f"{args.input} must have a last axis of {entry.name}'s d_model, {entry.d_model}, got "
                f"{x.shape[-1]}; choose the layers with --layer and --stack"
            )
        say(f"{entry.name} ...", stderr=True)
        try:
            network = entry.load(like=x)
            bad = _not_finite(network)
            # One such weight spoils its unit, and with it the largest of every token: nothing counted would be true.
            done.append(LayerStatistics(entry, None if bad else statistics(network, x), bad))
        except CheckpointError as error:
            raise CannotRun(as_options(str(error))) from None
    return done


def _not_finite(network: Network) -> tuple[str, ...]:
    """The arrays that hold NaN or infinite numbers, of those that the hidden units and their values are made of."""
    arrays = network.weights._asdict()
    if network.before is not None:
        arrays |= {"gamma": network.before.gamma, "beta": network.before.beta}
    return tuple(name for name, array in arrays.items() if array is not None and not np.isfinite(array).all())


def _input(path: str | None) -> np.ndarray[Any, Any] | None:
    """The array of an .npy file, in float32 or float64."""
    if path is None:
        return None
    try:
        x = np.load(Path(path).expanduser(), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CannotRun(f"{path}: can't be read as an .npy file; {error}") from None
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "fiub" or x.ndim == 0:
        raise CannotRun(f"{path}: must hold one array of real numbers, (..., d_model)")
    if math.prod(x.shape[:-1]) == 0 or not np.isfinite(x).all():
        raise CannotRun(f"{path}: must hold one token or more, of finite numbers, for anything to be counted")
    return x if x.dtype == np.float64 else x.astype(np.float32)


def _document(
    store: Store,
    found: Sequence[Entry],
    table: Sequence[Row],
    total: int,
    unread: Sequence[dict[str, Any]],
    warnings: Sequence[str],
    stats: Sequence[LayerStatistics],
) -> dict[str, Any]:
    """Everything, for --json."""
    return {
        "path": str(store.path),
        "model_type": store.config.get("model_type"),
        "parameters": total,
        "rows": [row._asdict() for row in table],
        "layers": [
            {
                "name": e.name,
                "stack": e.stack,
                "layer": e.layer,
                "form": e.form,
                "activation": told(e.activation),
                "d_model": e.d_model,
                "d_ff": e.d_ff,
                "bias": e.bias,
                "dtype": e.dtype,
                "bits": bits(e),
                "bytes": nbytes(e),
                "expert": e.expert,
                "tensors": list(e.tensors),
                "evidence": list(e.evidence),
                "problem": None if e.problem is None else as_options(str(e.problem)),
            }
            for e in found
        ],
        "not_understood": list(unread),
        "not_understood_count": sum(item["count"] for item in unread),
        "warnings": list(warnings),
        "statistics": [
            {
                "name": entry.name,
                "stack": entry.stack,
                "layer": entry.layer,
                "not_finite": list(bad),
                **(dict.fromkeys(Statistics._fields) if one is None else one._asdict()),
                "memories": [] if one is None else [memory._asdict() for memory in one.memories],
            }
            for entry, one, bad in stats
        ],
    }
