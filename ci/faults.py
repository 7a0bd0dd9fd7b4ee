"""Every planted fault in every dtype on NumPy: named rightly, not named, or falsely, as a table in Markdown on stdout.

    python ci/faults.py [NAME ...]      all of them, or those whose names hold one of these words

Ends with status 1 where something was named that is not so.
"""

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from portable_ffn.testing import check
from tests.testing.planted import PLANTED

DTYPES = ("float64", "float32", "float16", "bfloat16")
OUTCOMES = ("named rightly", "named with another that is the same", "none named", "below the rounding", "named falsely")


def outcome(planted, dtype):
    """What a check makes of one fault in one dtype."""
    report = check(planted.network, **planted.meant, backends="numpy", dtypes=dtype)
    failed = [row for row in report.rows if row.status == "fail"]
    causes = {cause for row in failed for cause in row.causes}
    right = {cause for cause in causes if planted.says is not None and planted.says in cause}
    wrong = causes - right - {"NaN hidden"}
    if not failed:
        return OUTCOMES[3]
    if not wrong:
        return OUTCOMES[0] if right else OUTCOMES[2]
    return OUTCOMES[1] if right else OUTCOMES[4]


def main(words):
    """Print the table; 1 where something is named falsely."""
    some = [one for one in PLANTED if not words or any(word in one.name for word in words)]
    counts = {dtype: Counter(outcome(one, dtype) for one in some if dtype in one.dtypes) for dtype in DTYPES}
    print(f"| {len(some)} faults | {' | '.join(DTYPES)} |\n|---|{'---|' * len(DTYPES)}")
    for told in OUTCOMES:
        print(f"| {told} | {' | '.join(str(counts[dtype][told]) for dtype in DTYPES)} |")
    return int(any(counts[dtype][OUTCOMES[4]] for dtype in DTYPES))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
