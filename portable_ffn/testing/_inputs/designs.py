"""Inputs on which faults differ, for a network that has failed: no rows of a report, but evidence."""

from portable_ffn.testing._inputs.build import Inputs, Wanted, curve, far, ordinary, sized
from portable_ffn.testing._inputs.cases import Case


def _biases_large(wanted: Wanted) -> Inputs:
    """Biases three times as large as usual."""
    x, w = ordinary(wanted, 5)
    b1, b2, c = (None if b is None else 3.0 * b for b in (w.b1, w.b2, w.c))
    return Inputs(x, w._replace(b1=b1, b2=b2, c=c))


def _positive(wanted: Wanted) -> Inputs:
    """All positive, so that no sum cancels."""
    x, w = ordinary(wanted._replace(d_model=6, d_ff=20), 7)
    return Inputs(abs(x), w._replace(W1=abs(w.W1), V=None if w.V is None else abs(w.V)))


# The first are of the shapes of the cases that every backend runs, for those that compile for each shape.
DESIGNS: tuple[Case, ...] = (
    Case("another curve", lambda wanted: curve(wanted, 5.0), first=True),
    Case("other numbers", lambda wanted: ordinary(wanted, 5), first=True),
    Case("larger numbers", lambda wanted: ordinary(wanted, 5, scale=4.0), first=True),
    Case("large biases", _biases_large, first=True),
    Case("far out", far, first=True),
    Case("4 rows, 6 by 10", sized(6, 10, 4)),
    Case("square, 9 rows", sized(10, 10, 9)),
    Case("square of 16, 16 rows", sized(16, 16, 16)),
    Case("three axes", sized(6, 12, 2, 3)),
    Case("four axes", sized(5, 6, 2, 3, 4)),
    Case("positive", _positive),
    Case("12 rows, 24 by 40", sized(24, 40, 12)),
    Case("20 rows, 12 by 72", sized(12, 72, 20)),
    Case("3 rows, 40 by 128", sized(40, 128, 3)),
    Case("100 rows, 6 by 9", sized(6, 9, 100)),
    Case("700 rows, 3 by 2", sized(3, 2, 700)),
    Case("2 rows, 5 by 600", sized(5, 600, 2)),
    Case("2 rows, 600 by 5", sized(600, 5, 2)),
)
