"""Which layers of two checkpoints belong together."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

Entry = Any
"""An entry of `portable_ffn.checkpoint.find`."""


class Pairs(NamedTuple):
    """Layers that belong together in the order of the first checkpoint, and those that only one of them has."""

    both: tuple[tuple[Entry, Entry], ...]
    only_a: tuple[Entry, ...]
    only_b: tuple[Entry, ...]


def pair(a: Sequence[Entry], b: Sequence[Entry], layer: int | None = None) -> Pairs:
    """Pair layers by their names, else by stack, number and expert, else by number where each side has one stack.

    `layer` takes those of that number alone; a checkpoint of one layer is that layer whatever its number is.
    """
    left, right = numbered(a, layer), numbered(b, layer)
    partner: dict[int, Entry] = {}
    for rule in _RULES:
        one_stack = len({entry.stack for entry in left}) == 1 == len({entry.stack for entry in right})
        if rule is _by_number and not one_stack:
            continue
        if rule is _single and not len(left) == 1 == len(right):
            continue
        waiting = dict(_keyed(right, rule))
        for key, entry in _keyed(left, rule):
            if key in waiting:
                partner[id(entry)] = waiting.pop(key)
        taken = {id(entry) for entry in partner.values()}
        left = [entry for entry in left if id(entry) not in partner]
        right = [entry for entry in right if id(entry) not in taken]
    both = tuple((entry, partner[id(entry)]) for entry in a if id(entry) in partner)
    return Pairs(both, tuple(left), tuple(right))


def numbered(entries: Sequence[Entry], layer: int | None) -> list[Entry]:
    """The entries of a layer's number, all where none is asked for."""
    if layer is None or len(entries) == 1:
        return list(entries)
    return [entry for entry in entries if entry.layer == layer]


def _by_name(entry: Entry) -> Hashable:
    """The dotted path of its tensors; a single network's own file has none."""
    return entry.name or id(entry)


def _by_place(entry: Entry) -> Hashable:
    """Its stack, number and expert."""
    return entry.stack, entry.layer, entry.expert


def _by_number(entry: Entry) -> Hashable:
    """Its number and expert."""
    return entry.layer, entry.expert


def _single(entry: Entry) -> Hashable:
    """Whatever it is."""
    return True


_RULES: tuple[Callable[[Entry], Hashable], ...] = (_by_name, _by_place, _by_number, _single)


def _keyed(entries: Iterable[Entry], rule: Callable[[Entry], Hashable]) -> list[tuple[Hashable, Entry]]:
    """Each entry with its key, and how often that came before: a layer may hold two networks."""
    met: Counter[Hashable] = Counter()
    keyed: list[tuple[Hashable, Entry]] = []
    for entry in entries:
        key = rule(entry)
        keyed.append(((key, met[key]), entry))
        met[key] += 1
    return keyed
