"""`portable-ffn inspect`: the feed-forward layers of a checkpoint, the grounds, and what was not understood."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from portable_ffn.checkpoint import CheckpointError
from portable_ffn.checkpoint._decide import Facts
from portable_ffn.checkpoint._entry import Entry
from portable_ffn.checkpoint._find import entries as find_entries
from portable_ffn.checkpoint._spellings import fact
from portable_ffn.checkpoint._store import Store, open_store
from portable_ffn.command import CannotRun
from portable_ffn.command._layers import Row, not_understood, rows, told, total_parameters
from portable_ffn.command._layers_table import print_layers
from portable_ffn.command._memories import Statistics, statistics


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `portable-ffn inspect`."""
    parser.add_argument("path", metavar="PATH", help="a directory, an index of shards, or a file")
    parser.add_argument("--activation", help="the activation, where the checkpoint doesn't say")
    parser.add_argument(
        "--gate",
        choices=("first", "second", "interleaved"),
        help="where a fused matrix has the gate, where the checkpoint doesn't say",
    )
    parser.add_argument(
        "--layout", choices=("out_in", "in_out"), help="how matrices lie, where the checkpoint doesn't say"
    )
    parser.add_argument("--layer", type=int, metavar="N", help="only the layers of this number")
    parser.add_argument("--stack", help='only this stack, such as "encoder"')
    parser.add_argument(
        "--stats",
        action="store_true",
        help="load the layers and say how many of their hidden units are active, and which memories are the strongest",
    )
    parser.add_argument("--input", metavar="X", help="x for --stats, (..., d_model), an .npy file; else random")
    parser.add_argument("--tokens", type=int, default=64, help="how many random tokens (64)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the random tokens (0)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """0 where every layer that is found is understood, 1 where some is not."""
    try:
        store = open_store(args.path)
        activation = None if args.activation is None else fact(args.activation)
        found = find_entries(store, Facts(activation, args.gate, args.layout))
    except (CheckpointError, OSError, ValueError) as error:
        raise CannotRun(str(error)) from None
    unread = not_understood(found, store)
    found = [entry for entry in found if args.layer in (None, entry.layer) and args.stack in (None, entry.stack)]
    total = total_parameters(store)
    table = rows(found, total)
    stats = _statistics(found, args) if args.stats else []
    if args.json:
        json.dump(_document(store, found, table, total, unread, stats), sys.stdout, indent=1)
        print()
    else:
        print_layers(store, table, total, unread, stats)
    return 1 if any(entry.problem is not None for entry in found) else 0


def _statistics(found: Sequence[Entry], args: argparse.Namespace) -> list[tuple[Entry, Statistics]]:
    """The statistics of every layer that can be loaded."""
    given = _input(args.input)
    done = []
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
        print(f"{entry.name} ...", file=sys.stderr)
        try:
            done.append((entry, statistics(entry.load(like=x), x)))
        except CheckpointError as error:
            raise CannotRun(str(error)) from None
    return done


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
    return x if x.dtype == np.float64 else x.astype(np.float32)


def _document(
    store: Store,
    found: Sequence[Entry],
    table: Sequence[Row],
    total: int,
    unread: Sequence[dict[str, Any]],
    stats: Sequence[tuple[Entry, Statistics]],
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
                "expert": e.expert,
                "tensors": list(e.tensors),
                "evidence": list(e.evidence),
                "problem": None if e.problem is None else str(e.problem),
            }
            for e in found
        ],
        "not_understood": list(unread),
        "statistics": [
            {
                "name": entry.name,
                "stack": entry.stack,
                "layer": entry.layer,
                **one._asdict(),
                "memories": [memory._asdict() for memory in one.memories],
            }
            for entry, one in stats
        ],
    }
