"""The feed-forward layers of any checkpoint, into any array library, refusing what is not known.

for entry in checkpoint.find(path):      # headers only
print(entry.name, entry.form, entry.activation)
ffn = checkpoint.load(path, layer=0)     # computes what the model's own module returns
y = ffn(x)
"""

import os
from typing import Any

from portable_ffn._typing import Array
from portable_ffn.checkpoint._decide import Facts
from portable_ffn.checkpoint._entry import Entry
from portable_ffn.checkpoint._errors import CheckpointError, Undecided
from portable_ffn.checkpoint._find import entries
from portable_ffn.checkpoint._network import Network
from portable_ffn.checkpoint._store import open_store

__all__ = ["CheckpointError", "Undecided", "find", "load", "save"]


def _facts(activation: Any = None, gate: str | None = None, layout: str | None = None) -> Facts:
    """The facts, each a word that is known."""
    for name, value, allowed in (("gate", gate, ("first", "second", "interleaved")),
                                 ("layout", layout, ("in_out", "out_in"))):
        if value is not None and value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return Facts(activation, gate, layout)


def find(path: str | os.PathLike[str], **facts: Any) -> list[Entry]:
    """The feed-forward layers of a checkpoint; only headers are read."""
    return entries(open_store(path), _facts(**facts))


def load(
    path: str | os.PathLike[str], layer: int = 0, *, stack: str | None = None, name: str | None = None,
    like: Array | None = None, **facts: Any,
) -> Network:
    """One feed-forward layer of a checkpoint."""
    found = find(path, **facts)
    chosen = [e for e in found if (e.name == name if name is not None else e.layer == layer)
              and (stack is None or e.stack == stack)]
    if len(chosen) != 1:
        listed = "\n".join(f"  {e.name} (stack {e.stack!r}, layer {e.layer}, {e.form})" for e in (chosen or found)[:40])
        raise ValueError(f"the arguments must choose one layer, and they choose {len(chosen)}; pass name=, of\n{listed}")
    return chosen[0].load(like)


def save(path: str | os.PathLike[str], obj: Any, *, activation: Any = None) -> None:
    """Write one network."""
    raise NotImplementedError
