"""The layers of a checkpoint as a table for a terminal."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from portable_ffn.checkpoint._entry import Entry
from portable_ffn.checkpoint._tensors.store import Store
from portable_ffn.command._inspect.memories import Statistics
from portable_ffn.command._inspect.summary import Row, numbers
from portable_ffn.command._terminal import say_table, say_text
from portable_ffn.command._words import say

_HEADINGS = (
    "stack",
    "layers",
    "form",
    "activation",
    "d_model",
    "d_ff",
    "bias",
    "dtype",
    "bits a weight",
    "bytes a layer",
    "parameters",
    "share",
    "FLOPs a token",
)
_SHOWN = 20


class LayerStatistics(NamedTuple):
    """A layer with its statistics, and the weights of it that are not all finite, for which there are none."""

    entry: Entry
    statistics: Statistics | None
    bad: tuple[str, ...] = ()


def print_layers(
    store: Store,
    table: Sequence[Row],
    total: int,
    unread: Sequence[dict[str, Any]],
    warnings: Sequence[str],
    stats: Sequence[LayerStatistics],
    *,
    any_found: bool,
) -> None:
    """Everything, for a reader."""
    model = store.config.get("model_type")
    say_text(f"{store.path}: {f'{model}, ' if isinstance(model, str) else ''}{_short(total)} parameters")
    if table:
        _table(_HEADINGS, [_cells(row) for row in table])
        say_text("grounds")
        for row in table:
            say_text(f"  {row.stack} {row.form} ({row.names[0]}): {'; '.join(row.evidence)}")
    elif not any_found:
        say_text("no feed-forward layer under names that are known")
    if not table:
        for note in store.notes:
            say_text(note)
    for warning in warnings:
        say_text(f"warning: {warning}")
    if unread:
        say_text("not understood")
        for item in unread[:_SHOWN]:
            more = "" if item["count"] == 1 else f" and {item['count'] - 1} more"
            say_text(f"  {item['where']}{more}: {item['why']}")
        if len(unread) > _SHOWN:
            say_text(f"  ... and {len(unread) - _SHOWN} more kinds")
    for entry, one, bad in stats:
        if one is None:
            held = "holds" if len(bad) == 1 else "hold"
            say_text(f"{entry.name}: {', '.join(bad)} {held} NaN or infinite numbers, so nothing is counted")
            continue
        say_text(
            f"{entry.name}: {one.active:.1%} of the hidden units active for a token ({one.zero:.1%} zero), over "
            f"{one.tokens} tokens; the strongest memories"
        )
        for memory in one.memories:
            say_text(
                f"  unit {memory.unit:6}  coefficient {memory.coefficient:.4g}  value's length {memory.length:.4g}  "
                f"active {memory.active:.0%}"
            )


def _cells(row: Row) -> tuple[str, ...]:
    """One row of the table."""
    form = f"{row.experts} x {row.form}" if row.experts else row.form
    return (
        row.stack,
        numbers(row.layers),
        form,
        row.activation,
        str(row.d_model),
        str(row.d_ff),
        "yes" if row.bias else "no",
        row.dtype,
        f"{row.bits:g}",
        _short(row.bytes),
        _short(row.parameters),
        f"{row.share:.1%}",
        "?" if row.flops is None else _short(row.flops),
    )


def _short(number: int) -> str:
    """A large number with its unit: 22.7 M."""
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return str(number)


def _table(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """A table: drawn on a terminal, plain otherwise."""
    if not say_table(headings, cells):
        widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
        for row in (headings, *cells):
            say("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
