"""Run the set of `portable-ffn bench` and fail on a ratio that is out. The limits are those of two cores.

bash ci/bench.sh [--rounds N] [--only PART ...]
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

SIZES = ("512/2048", "1024/4096")
# (library, dtype, size) -> at most so many times the floor, and so many times the hand-written, by activation;
# silu is SwiGLU. The floor of float64 on PyTorch is its own chain of Linears, plus 2 %.
LIMITS = {
    ("numpy", "float32", "512/2048"): {"relu": 1.10, "silu": 1.20, "gelu_tanh": 1.28, "gelu": 1.50},
    ("numpy", "float32", "1024/4096"): {"relu": 1.08, "silu": 1.15, "gelu_tanh": 1.18, "gelu": 1.30},
    ("numpy", "float64", "512/2048"): {"relu": 1.08, "silu": 1.22, "gelu_tanh": 1.40, "gelu": 1.70},
    ("numpy", "float64", "1024/4096"): {"relu": 1.08, "silu": 1.15, "gelu_tanh": 1.22, "gelu": 1.42},
    **{("torch", "float32", size): {"relu": 1.06, "silu": 1.06, "gelu_tanh": 1.08, "gelu": 1.08} for size in SIZES},
    **{
        ("jax", dtype, size): {"relu": 1.08, "silu": 1.08, "gelu_tanh": 1.10, "gelu": 1.10}
        for dtype in ("float32", "float64")
        for size in SIZES
    },
}
TO_HAND = {
    ("numpy", "float32"): {"relu": 1.0, "silu": 1 / 1.2, "gelu_tanh": 1 / 1.6, "gelu": 1 / 1.6},
    ("numpy", "float64"): {"relu": 1.0, "silu": 1 / 1.15, "gelu_tanh": 1 / 1.3, "gelu": 1.0},
    ("torch", "float32"): dict.fromkeys(("relu", "silu", "gelu_tanh", "gelu"), 1.0),
    ("torch", "float64"): dict.fromkeys(("relu", "silu", "gelu_tanh", "gelu"), 1.02),
    ("jax", "float32"): dict.fromkeys(("relu", "silu", "gelu_tanh", "gelu"), 1.03),
    ("jax", "float64"): dict.fromkeys(("relu", "silu", "gelu_tanh", "gelu"), 1.03),
}
SMALL = {"numpy": 1.25, "torch": 1.25, "jax": 1.5}  # times the hand-written line
TRAINING = 1.0  # times the hand-written line
DECODING = 1.15  # times the floor
HALF = 1.5  # times the float32 call with its casts
MEMORY = 64  # MiB beside the output
# What a part asks of the bench.
PARTS = {
    "table": ["--sizes", *SIZES, "--dtypes", "float32", "float64"],
    "out_in": ["--layout", "out_in", "--activations", "relu", "silu", "--libraries", "numpy", "torch"],
    "train": ["--train", "--libraries", "torch", "jax"],
    "small": ["--tokens", "1", "--sizes", "8/16", "--activations", "relu"],
    "decoding": ["--tokens", "1", "--sizes", *SIZES, "--activations", "relu"],
    "half": ["--libraries", "numpy", "torch", "--dtypes", "bfloat16", "float16", "--tokens", "16", "4x512"],
    "half_out_in": ["--libraries", "torch", "--dtypes", "bfloat16", "float16", "--tokens", "16", "--layout", "out_in"],
    "memory": ["--memory", "--libraries", "numpy", "torch", "--dtypes", "float64", "--tokens", "65536"],
}


def asked_of(part, row):
    """The limits of one row: what is measured, and the most it may be."""
    library, dtype, activation = row["library"], row["dtype"], row["activation"]
    size = f"{row['d_model']}/{row['d_ff']}"
    if part == "memory":
        yield "MiB beside the output", row["peak_mib"] - row["output_mib"], MEMORY
        return
    ratios = row["ratios"]["ours"]
    if part in ("table", "out_in"):
        if (library, dtype, size) in LIMITS:
            yield "of the floor", ratios["floor"], LIMITS[library, dtype, size][activation]
        yield "of the hand-written", ratios["hand"], TO_HAND[library, dtype][activation]
    elif part == "train":
        yield "of the hand-written", ratios["hand"], TRAINING
    elif part == "small":
        yield "of the hand-written", ratios["hand"], SMALL[library]
    elif part == "decoding":
        yield "of the floor", ratios["floor"], DECODING
    else:
        yield "of float32 with its casts", ratios["floor"], HALF


def measured(part, rounds):
    """The rows of one part."""
    command = [sys.executable, "-m", "portable_ffn", "bench", "--json", "--rounds", str(rounds), *PARTS[part]]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--json", type=Path, help="write everything measured there")
    args = parser.parse_args()
    documents, out = {}, 0
    for part in args.only:
        documents[part] = document = measured(part, args.rounds)
        for row in document["rows"]:
            name = "swiglu" if row["gated"] else row["activation"]
            tokens = "x".join(map(str, row["tokens"]))
            for what, value, limit in asked_of(part, row):
                bad = value > limit
                out += bad
                case = f"{row['library']:6}{row['dtype']:9} {tokens:>6} {row['d_model']}/{row['d_ff']:<5} {name:10}"
                print(f"{part:12}{case}{value:8.2f} {what}, at most {limit:.2f}{'  OUT' if bad else ''}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(documents, indent=1) + "\n")
    print(f"{out} out")
    return int(out > 0)


if __name__ == "__main__":
    sys.exit(main())
