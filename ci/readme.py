"""Write the tables of README.md and of the site's pages from what they are about: the rows of the code, and runs.

    python ci/readme.py           # writes them
    python ci/readme.py --check   # exit 1 where a page differs from what would be written

Each stands between `<!-- NAME: made by ci/readme.py -->` and `<!-- end -->`.
"""

import re
import sys
from pathlib import Path

import numpy as np

import portable_ffn
from portable_ffn import feed_forward, hidden, init_weights, oracle
from portable_ffn.checkpoint._files.containers import CONTAINERS
from portable_ffn.checkpoint._tensors.formats import FORMATS
from portable_ffn.checkpoint._tensors.unread import METHODS, REFUSED_FIRST
from portable_ffn.testing import BACKENDS
from portable_ffn.testing._faults.visible import SURELY, Network, visible
from portable_ffn.testing._inputs.cases import CASES

ROOT = Path(__file__).resolve().parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*/*.md")))
DTYPES = ("float64", "float32", "float16", "bfloat16")


def table(head, rows):
    """A table of Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


# Rows that no machine of the tests has: what is known of them instead.
ELSEWHERE = {
    "torch:cuda": "never run; in shapes alone as torch:meta",
    "jax:gpu": "lowered only, for CUDA and ROCm",
    "cupy": "never run",
}


def versions():
    """The versions that the tests run on, by distribution."""
    pinned = [(ROOT / "ci" / name).read_text() for name in ("constraints.txt", "constraints-more.txt")]
    found = re.findall(r"^([\w.-]+)==(\S+)$", "\n".join(pinned), re.M)
    return {name.replace("_", "-").lower(): version for name, version in found}


def support():
    """Libraries and ways of running, from the table of backends."""
    tried = versions()
    rows = [
        (
            f"`{row.name}`",
            tried.get(row.distribution.replace("_", "-").lower(), "-"),
            *("yes" if dtype in row.dtypes else "-" for dtype in DTYPES),
            ELSEWHERE.get(row.name, "run here"),
        )
        for row in BACKENDS.values()
    ]
    return table(("backend", "version", *DTYPES, "evidence"), rows)


def activations():
    """The names of the activations."""
    return ", ".join(f"`{name}`" for name in portable_ffn.ACTIVATIONS)


def smallest_faults():
    """What the bound can still see by size and dtype, from a run: see the text above the table."""
    rows = []
    for d_model, d_ff in ((8, 32), (64, 256), (384, 1536)):
        for dtype in DTYPES:
            x = np.random.default_rng(0).standard_normal((16, d_model))
            weights = init_weights(d_model, d_ff)
            x, *weights = held((x, *weights[:4]), dtype)
            y, bound = oracle.feed_forward(x, *weights, activation="gelu", dtype=dtype)
            h, h_bound = oracle.hidden(x, *weights[:2], activation="gelu", dtype=dtype)
            wrong = np.abs(feed_forward(x, *weights, activation="gelu_tanh") - y) / bound
            wrong_h = np.abs(hidden(x, *weights[:2], activation="gelu_tanh") - h) / h_bound
            smallest = np.min(bound) / np.sqrt(np.mean(y**2))
            rows.append((f"{d_model}/{d_ff}", dtype, f"{smallest:.1g}", f"{wrong.max():.2g}", f"{wrong_h.max():.2g}"))
    head = ("d_model/d_ff", "dtype", "smallest shift of an output", "tanh GELU, output", "tanh GELU, `hidden`")
    return table(head, rows)


def held(arrays, dtype):
    """The numbers that a dtype holds of these, in float64."""
    row = BACKENDS["numpy"]
    return [row.take(row.put(array, dtype)) for array in arrays]


# What the faults are planted in: the paper's network, BERT's, LLaMA's, GPT-OSS's.
NETWORKS = (("relu", False), ("gelu", False), ("silu", True), (portable_ffn.ClippedGate(7.0, 1.702, 1.0), True))


def faults():
    """The faults that hide in the rounding of some dtype, with their largest effect over the bound, from a run."""
    least = {}
    for activation, gated in NETWORKS:
        names = frozenset(("b1", "b2", "V", "c") if gated else ("b1", "b2"))
        cases = tuple(case.name for case in CASES)
        network = Network(activation, str(activation), gated, names, 8, 32, 0, cases, DTYPES)
        for one in visible([network]):
            for fault, effect in one.effects.items():
                seen = least.setdefault(fault, {})
                seen[one.dtype] = min(effect, seen.get(one.dtype, np.inf))
    hidden_somewhere = {fault: seen for fault, seen in least.items() if min(seen.values()) <= SURELY}
    rows = [
        (fault, *(verdict(seen[dtype]) if dtype in seen else "-" for dtype in DTYPES))
        for fault, seen in hidden_somewhere.items()
    ]
    rows.append((f"the other {len(least) - len(rows)} of the table", *("seen" for _ in DTYPES)))
    return table(("fault", *DTYPES), rows)


def verdict(effect):
    """Whether a fault with that effect is seen for sure."""
    return "seen" if effect > SURELY else f"no, {effect:.2g}"


def formats():
    """What a checkpoint's files may be, from the rows of the readers."""
    quantised = [
        (row.name, " with ".join(f"`*{end}`" for end in (row.values, *row.beside) if end), "NumPy") for row in FORMATS
    ]
    merged = {}
    for name, told, needs in quantised:
        merged.setdefault((name, needs), []).append(told)
    rows = [("safetensors, whole or sharded", "`*.safetensors`", "nothing")]
    rows.append(("GGUF of every type, whole or split", "`*.gguf`", "`[gguf]` for quantised types"))
    for kind in CONTAINERS:
        named = kind.files.removeprefix(r".*\.").strip("()").split("|")
        files = ", ".join(f"`*.{end}`" for end in named if end) or "a directory"
        rows.append((kind.name, files, f"`[{kind.extra}]`" if kind.extra else "nothing"))
    rows += [(name, "; ".join(filter(None, told)) or "by the config", needs) for (name, needs), told in merged.items()]
    return table(("format", "told by", "needs"), rows)


def refused_formats():
    """The formats that are recognised in order to be refused by name."""
    names = dict.fromkeys([*(one.name for one in METHODS.values()), *(one.format for one in REFUSED_FIRST)])
    return ", ".join(names)


TABLES = {
    "formats": formats,
    "refused": refused_formats,
    "support": support,
    "activations": activations,
    "visible": smallest_faults,
    "faults": faults,
}


def held_by(name, text):
    """Where a page holds the table of that name, marks included; None where it does not."""
    mark = re.escape(f"<!-- {name}: made by ci/readme.py -->")
    return re.search(rf"{mark}\n(.*?\n)?<!-- end -->", text, re.S)


def rewritten(text, names=tuple(TABLES)):
    """The text of a page with those of its tables made anew."""
    for name in names:
        found = held_by(name, text)
        if found:
            table = f"<!-- {name}: made by ci/readme.py -->\n{TABLES[name]()}\n<!-- end -->"
            text = text[: found.start()] + table + text[found.end() :]
    return text


if __name__ == "__main__":
    stale = False
    for page in PAGES:
        before = page.read_text()
        after = rewritten(before)
        stale = stale or before != after
        if "--check" not in sys.argv:
            page.write_text(after)
    sys.exit("--check" in sys.argv and stale)
