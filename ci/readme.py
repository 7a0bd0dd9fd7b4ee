"""Write the tables of README.md from what they are about: the rows of the code, and runs.

    python ci/readme.py           # writes them
    python ci/readme.py --check   # exit 1 where the README differs from what would be written

Each stands between `<!-- NAME: made by ci/readme.py -->` and `<!-- end -->`.
"""

import re
import sys
from pathlib import Path

import numpy as np

import portable_ffn
from portable_ffn import feed_forward, hidden, init_weights, oracle
from portable_ffn.testing import BACKENDS

README = Path(__file__).resolve().parent.parent / "README.md"
DTYPES = ("float64", "float32", "float16", "bfloat16")


def table(head, rows):
    """A table of Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def support():
    """Libraries and ways of running, from the table of backends."""
    rows = [
        (f"`{row.name}`", *("yes" if dtype in row.dtypes else "-" for dtype in DTYPES))
        for row in BACKENDS.values()
    ]
    return table(("backend", *DTYPES), rows)


def activations():
    """The names of the activations."""
    return ", ".join(f"`{name}`" for name in portable_ffn.ACTIVATIONS)


def visible():
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


TABLES = {"support": support, "activations": activations, "visible": visible}


def rewritten(text, names=None):
    """The README's text with its tables made anew."""
    for name in TABLES if names is None else names:
        mark = f"<!-- {name}: made by ci/readme.py -->"
        pattern = re.compile(re.escape(mark) + r"\n.*?\n<!-- end -->", re.S)
        if not pattern.search(text):
            raise SystemExit(f"README.md must hold {mark!r} and, below it, '<!-- end -->'")
        body = TABLES[name]()
        text = pattern.sub(lambda _, mark=mark, body=body: f"{mark}\n{body}\n<!-- end -->", text)
    return text


if __name__ == "__main__":
    before = README.read_text()
    after = rewritten(before)
    if "--check" in sys.argv:
        sys.exit(before != after)
    README.write_text(after)
