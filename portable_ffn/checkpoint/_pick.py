"""The one entry that a layer's number, its stack or its name means."""

import os
from collections.abc import Sequence

from portable_ffn.checkpoint._entry import Entry
from portable_ffn.checkpoint._errors import CheckpointError

_LISTED = 40


def pick(
    found: Sequence[Entry], path: str | os.PathLike[str], layer: int, stack: str | None, name: str | None
) -> Entry:
    """The entry that is meant; ValueError that lists the others where it is none, or several."""
    if not found:
        raise CheckpointError(
            f"{os.fspath(path)} must hold a feed-forward layer under names that are known; it holds none"
        )
    if name is None:
        chosen = [entry for entry in found if entry.layer == layer and stack in (None, entry.stack)]
        asked = f"layer {layer}" + ("" if stack is None else f" of stack {stack!r}")
    else:
        chosen = [e for e in found if e.name == name] or [e for e in found if name in (e.base, f"{e.base}#{e.mark}")]
        chosen = [entry for entry in chosen if stack in (None, entry.stack)]
        asked = f"name {name!r}"
    if len(chosen) != 1:
        raise ValueError(
            f"one layer must be meant, and {asked} means {len(chosen)} of them; pass name=, one of\n"
            + _listed(chosen or found)
        )
    return chosen[0]


def _listed(found: Sequence[Entry]) -> str:
    """Entries, a line each."""
    lines = [f"  {e.name!r} (stack {e.stack!r}, layer {e.layer}, {e.form})" for e in found[:_LISTED]]
    return "\n".join(lines + [f"  ... and {len(found) - _LISTED} more"] * (len(found) > _LISTED))
