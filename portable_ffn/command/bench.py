"""`portable-ffn bench`: the network against its bare matrix products and against what a user would write."""

import argparse
import importlib
import importlib.metadata
import itertools
import json
import os
import platform
import sys
from typing import Any

from portable_ffn import Weights, init_weights
from portable_ffn._arrays.dtype import LOW_PRECISION
from portable_ffn.command import CannotRun
from portable_ffn.command._bench import request
from portable_ffn.command._bench.contenders import CONTENDERS, GATED, half_contenders
from portable_ffn.command._bench.rounds import medians, peak_mib
from portable_ffn.command._progress import shown
from portable_ffn.command._terminal import say_table, say_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand."""
    parser.add_argument("--libraries", nargs="+", choices=list(CONTENDERS), default=None, help="default: all found")
    parser.add_argument(
        "--dtypes", nargs="+", choices=list(request.DTYPES), default=["float32"], help="default: float32"
    )
    parser.add_argument("--sizes", nargs="+", default=["512/2048"], metavar="D_MODEL/D_FF", help="default: 512/2048")
    parser.add_argument("--tokens", nargs="+", default=["4x512"], metavar="SHAPE", help="leading axes, default: 4x512")
    parser.add_argument(
        "--activations",
        nargs="+",
        choices=["relu", "silu", "gelu_tanh", "gelu"],
        default=["relu", "silu", "gelu_tanh", "gelu"],
        help="silu is measured as SwiGLU, the gated network, and its rows are named swiglu; default: all",
    )
    parser.add_argument(
        "--layout", choices=["in_out", "out_in"], default="in_out", help="how the weights lie in memory"
    )
    parser.add_argument("--train", action="store_true", help="forward and backward (torch, jax)")
    parser.add_argument("--memory", action="store_true", help="one call of ours alone: what it needs beside its inputs")
    parser.add_argument("--rounds", type=int, default=9, help="interleaved rounds, default: 9")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    if args.rounds < 1:
        raise CannotRun(f"--rounds must be 1 or more, got {args.rounds}")
    sizes = [request.numbers("--sizes", text, "/", 2) for text in args.sizes]
    tokens = [request.numbers("--tokens", text, "x") for text in args.tokens]
    libraries = request.libraries(args.libraries, args.train)
    dtypes = request.dtypes(args.dtypes, args.train)
    cases = list(itertools.product(libraries, dtypes, tokens, sizes, args.activations))
    request.refuse_too_large(cases, GATED)
    rows = []
    with shown() as show:
        for number, (library, dtype, leading, (d_model, d_ff), activation) in enumerate(cases):
            what = f"{library} {dtype} {leading} {d_model}/{d_ff} {activation}"
            show(f"{number + 1} of {len(cases)} cases: {what}", number, len(cases))
            try:
                rows.append(_row(library, dtype, leading, d_model, d_ff, activation, args))
            except MemoryError as error:
                raise CannotRun(f"{d_model}/{d_ff} in {dtype} doesn't fit into memory: {error}; ask for less") from None
    document = {"machine": _machine(libraries), "rows": rows}
    if args.json:
        json.dump(document, sys.stdout, indent=1)
        print()
    else:
        _print(document, args.memory)
    return 0


def _row(
    library: str,
    dtype: str,
    leading: tuple[int, ...],
    d_model: int,
    d_ff: int,
    activation: Any,
    args: argparse.Namespace,
) -> dict[str, Any]:
    """One case, measured."""
    x, weights = _inputs(library, dtype, leading, d_model, d_ff, GATED.get(activation, False), args.layout)
    case: dict[str, Any] = {
        "library": library,
        "dtype": dtype,
        "tokens": list(leading),
        "d_model": d_model,
        "d_ff": d_ff,
        "activation": activation,
        "gated": weights.V is not None,
        "layout": args.layout,
        "train": args.train,
    }
    if dtype in LOW_PRECISION:
        contenders = half_contenders(x, weights, activation)
    else:
        contenders = CONTENDERS[library](x, weights, activation, args.train)
    if args.memory:
        output = request.DTYPES[dtype] * d_model * request.positions(leading) / 2**20
        return {**case, "output_mib": output, "peak_mib": peak_mib(contenders.ours)}
    note = {"note": contenders.note} if contenders.note else {}
    return {**case, **medians(contenders.runs(), args.rounds), **note}


def _inputs(
    library: str,
    dtype: str,
    leading: tuple[int, ...],
    d_model: int,
    d_ff: int,
    gated: bool,
    layout: str,
) -> tuple[Any, Weights]:
    """The same numbers in every library; weights as (in, out), or as transposed views of (out, in) storage."""
    import numpy as np

    rng = np.random.default_rng(0)
    like = _scalar(library)
    x = Weights(rng.standard_normal((*leading, d_model), dtype="float32"), None, None, None)
    weights = init_weights(d_model, d_ff, gated=gated, bias=True, seed=0)
    if layout == "out_in":
        weights = Weights(*(w if w is None or w.ndim == 1 else np.ascontiguousarray(w.T).T for w in weights))
    try:
        return x.to(like=like, dtype=dtype).W1, weights.to(like=like, dtype=dtype)
    except TypeError as error:
        raise CannotRun(str(error)) from None


def _scalar(library: str) -> Any:
    """An array that stands for the library; JAX is told to hold float64."""
    if library == "jax":
        jax = importlib.import_module("jax")
        jax.config.update("jax_enable_x64", True)
        return jax.numpy.zeros(1)
    module = importlib.import_module(library)
    return module.zeros(1)


def _machine(libraries: list[str]) -> dict[str, Any]:
    """What was measured on: the kind of processor, never the machine's name."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = {name: importlib.metadata.version(name) for name in dict.fromkeys(["numpy", *libraries])}
    return {"processor": platform.machine(), "cores": cores, "python": platform.python_version(), **versions}


def _print(document: dict[str, Any], memory: bool) -> None:
    """The table: drawn on a terminal, plain otherwise."""
    say_text(", ".join(f"{name} {value}" for name, value in document["machine"].items()))
    measured = (
        ["peak MiB", "output MiB"] if memory else ["floor us", "ours us", "ours/floor", "hand/floor", "ours/hand"]
    )
    headings = ["library", "dtype", "tokens", "size", "activation", *measured]
    rows = [_cells(row, memory) for row in document["rows"]]
    if not say_table(headings, rows):
        library, dtype, tokens, size, activation, *columns = headings
        print(f"{library:8}{dtype:10}{tokens:>10}{size:>13}  {activation:12}" + "".join(f"{c:>12}" for c in columns))
        for library, dtype, tokens, size, name, *cells in rows:
            print(f"{library:8}{dtype:10}{tokens:>10}{size:>13}  {name:12}" + "".join(f"{cell:>12}" for cell in cells))
    for note in dict.fromkeys(row["note"] for row in document["rows"] if "note" in row):
        say_text(f"-: {note}")


def _cells(row: dict[str, Any], memory: bool) -> list[str]:
    """One row of the table."""
    tokens, size = "x".join(map(str, row["tokens"])), f"{row['d_model']}/{row['d_ff']}"
    case = [row["library"], row["dtype"], tokens, size, "swiglu" if row["gated"] else row["activation"]]
    if memory:
        return [*case, "?" if row["peak_mib"] is None else f"{row['peak_mib']:.0f}", f"{row['output_mib']:.0f}"]
    us, ratios = row["microseconds"], row["ratios"]
    hand = [f"{ratios['hand']['floor']:.2f}", f"{ratios['ours']['hand']:.2f}"] if "hand" in ratios else ["-", "-"]
    return [*case, f"{us['floor']:.1f}", f"{us['ours']:.1f}", f"{ratios['ours']['floor']:.2f}", *hand]
