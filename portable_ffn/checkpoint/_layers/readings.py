"""Which ways round two matrices can be read, by their shapes alone."""

from typing import NamedTuple

from portable_ffn.checkpoint._layers.candidates import Info, trimmed


class Layout(NamedTuple):
    """The axes as they were read: whether the outputs come first, the two widths, and whether W1 holds both."""

    out_first: bool
    d_model: int
    d_ff: int
    fused: bool
    reason: str


class Readings(NamedTuple):
    """What the shapes allow."""

    out_in: Layout | None
    in_out: Layout | None


def readings(w1: tuple[int, ...], w2: tuple[int, ...], gated: bool, groups: tuple[int, int]) -> Readings:
    """Both readings of two matrices whose widths must meet: (out, in) and (in, out)."""
    if len(w1) != 2 or len(w2) != 2:
        return Readings(None, None)
    (a, b), (c, d) = w1, w2
    if groups != (1, 1):
        b, d = b * groups[0], d * groups[1]
    out_in = in_out = None
    if b == c and (a == d or (a == 2 * d and not gated)):
        out_in = Layout(True, b, d, a != d, "")
    if a == d and (b == c or (b == 2 * c and not gated)) and groups == (1, 1):
        in_out = Layout(False, a, c, b != c, "")
    return Readings(out_in, in_out)


def matrix_shape(info: Info, stacked: bool) -> tuple[int, ...]:
    """The shape of one matrix: of one expert where they are stacked."""
    shape = trimmed(info.shape)
    return shape[1:] if stacked else shape
