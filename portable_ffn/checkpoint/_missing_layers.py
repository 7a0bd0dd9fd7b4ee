"""Layers that a config counts and a file holds nothing of: a checkpoint cut short loads, and is another model.

It is told only where the count is clearly that of the stack. A layer without a feed-forward network (a hybrid's) holds
other tensors, so it is not missing; where layers share a block, or the config speaks for two stacks, nothing is said.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from portable_ffn.checkpoint._entry import Entry
from portable_ffn.checkpoint._layers.context import scope_at
from portable_ffn.checkpoint._layers.paths import unwrap, whole
from portable_ffn.checkpoint._tensors.store import Store

_COUNTS = ("num_hidden_layers", "n_layer")
# Keys of configs whose count is one of several: of an encoder and a decoder, or of blocks that are gone through again.
_OTHERWISE = re.compile(r"(encoder|decoder).*layers?$|num_hidden_groups$|recurrent_loops$|loop|share_layer")


def missing_layers(entries: Sequence[Entry], store: Store) -> list[str]:
    """What is to be said of each stack: how many layers its config counts, how many were found, and which are not."""
    homes: dict[str, set[str | None]] = defaultdict(set)
    for entry in entries:
        homes[entry.stack].add(_home(entry))
    counted: dict[int, list[tuple[str, str, str, int]]] = defaultdict(list)
    for stack, found in homes.items():
        for home in found:
            scope = scope_at(store.config, f"{home}.0") if home else None
            if scope is not None:
                key = next((key for key in _COUNTS if _whole(scope.chain[0].get(key))), None)
                plain = not any(_OTHERWISE.search(name) and value for name, value in scope.chain[0].items())
                if key and plain and len(found) == 1 and (not scope.names or scope.says_text):
                    label = key if scope.label == "config" else f"{key} of {scope.label}"
                    counted[id(scope.chain[0])].append((stack, str(home), label, scope.chain[0][key]))
    told = []
    for stacks in counted.values():
        if len(stacks) == 1:
            stack, home, label, count = stacks[0]
            there = _numbers(home, store.tensors)
            gone = [n for n in range(count) if n not in there]
            # Some count from 1.
            if gone and not (gone == [0] and count in there):
                lost = _listed(gone)
                told.append(
                    f"the {stack} stack must have {count} layers as {label} in the config says, and {lost} "
                    f"{'is' if len(gone) == 1 else 'are'} not in the file; the checkpoint is cut short, or the config "
                    "is another model's"
                )
    return told


def _home(entry: Entry) -> str | None:
    """The path under which a stack numbers its layers; None where a layer's path has other numbers as well."""
    path = unwrap(entry.base)
    if entry.expert is not None or entry.experts:
        path = path.partition(".experts")[0]
    parts = path.split(".")
    numbered = [i for i, part in enumerate(parts) if whole(part) is not None]
    return ".".join(parts[: numbered[0]]) if len(numbered) == 1 else None


def _whole(value: Any) -> bool:
    """Whether it is a number of layers that a file could hold."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 100_000


def _numbers(home: str, names: Iterable[str]) -> set[int]:
    """The numbers under a path, whatever lies under each."""
    start = home + "."
    found = (name[len(start) :].partition(".")[0] for name in map(unwrap, names) if name.startswith(start))
    return {number for number in map(whole, found) if number is not None}


def _listed(numbers: Sequence[int]) -> str:
    """The first few numbers."""
    more = f" and {len(numbers) - 8} more" if len(numbers) > 8 else ""
    return f"{'layer' if len(numbers) == 1 else 'layers'} {', '.join(map(str, numbers[:8]))}{more}"
