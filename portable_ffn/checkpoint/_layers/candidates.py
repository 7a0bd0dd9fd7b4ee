"""Which tensors form a feed-forward network, going by names and shapes alone."""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from portable_ffn.checkpoint._layers.paths import whole
from portable_ffn.checkpoint._layers.patterns import PATTERNS, STACKED, Pattern
from portable_ffn.checkpoint._layers.words import NETWORK_WORDS

_OWN_BIASES = {"W1": "b1", "W2": "b2", "V": "c"}
# What stands after a matrix's name; the later ones where an adapter, a compiler or a checkpointing wrapper holds it.
_WRAPPED = (".base_layer", "._orig_mod", "._checkpoint_wrapped_module")
_SUFFIXES = (".weight", ".kernel", *(wrapper + ".weight" for wrapper in _WRAPPED))
_NETWORK = re.compile(r"(^|_)(mlps?|ffns?|ff|feed_?forwards?)(_|\d|$)|^(Mlp|FeedForward)(Block)?_\d+$")
_HEADS = re.compile(r"embed|time|pos|bias|head|pred|proj|router|cond|class|bbox|score")


class Info(Protocol):
    """What is known of a tensor from its header."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def linear(self) -> bool: ...


class Candidate(NamedTuple):
    """Tensors named as a network's are, under one path. `expert` indexes a stack, or is None."""

    parent: str
    pattern: Pattern
    W1: str
    W2: str
    V: str | None
    stacked: bool
    suffix: str

    def bias(self, key: str) -> str:
        """The name that the bias of a matrix has."""
        if self.pattern.W1 == "W1":
            path, dot, matrix = key.rpartition(".")
            return path + dot + _OWN_BIASES[matrix]
        if self.pattern.raw:
            return key.replace("_weight", "_bias") if key.endswith("_weight") else _raw_bias(key)
        stem, suffix = split(key)
        wrapped = next((wrapper for wrapper in _WRAPPED if suffix == wrapper + ".weight"), "")
        return stem + "_bias" if self.stacked and not suffix else stem + wrapped + ".bias"

    def at(self, parent: str) -> "Candidate":
        """The like of it under another path."""
        start = len(self.parent)
        V = None if self.V is None else parent + self.V[start:]
        return self._replace(parent=parent, W1=parent + self.W1[start:], W2=parent + self.W2[start:], V=V)

    @property
    def matrices(self) -> tuple[str, ...]:
        """The names of W1, V where there is one, and W2."""
        return (self.W1, self.W2) if self.V is None else (self.W1, self.V, self.W2)

    @property
    def last(self) -> str:
        """The last component of the path that holds the network."""
        return self.parent.rpartition(".")[2]


def _raw_bias(key: str) -> str:
    """b_in of W_in."""
    path, dot, matrix = key.rpartition(".")
    return path + dot + "b" + matrix[1:]


def _by_last(patterns: Iterable[Pattern]) -> dict[str, list[Pattern]]:
    """The patterns by the last component of W2's name."""
    found: dict[str, list[Pattern]] = defaultdict(list)
    for pattern in patterns:
        found[pattern.W2.rpartition(".")[2]].append(pattern)
    return dict(found)


_PLAIN = _by_last(PATTERNS)
_STACKED = _by_last(STACKED)


def trimmed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without the axes of length 1 that a 1 x 1 convolution has at its end."""
    while len(shape) > 2 and shape[-1] == 1:
        shape = shape[:-1]
    return shape


def split(name: str) -> tuple[str, str]:
    """A tensor's name as stem and suffix."""
    for suffix in reversed(_SUFFIXES):
        if name.endswith(suffix):
            return name[: -len(suffix)], suffix
    return name, ""


def candidates(tensors: Mapping[str, Info]) -> Iterator[Candidate]:
    """Every group of tensors that a pattern names, each W2 with the first pattern that fits.

    A matrix that is one of three in a gated network is not one of two in another.
    """
    found = list(_matches(tensors))
    taken = {key for one in found if one.V is not None for key in (one.W1, one.V)}
    return (one for one in found if one.V is not None or one.W2 not in taken)


def _matches(tensors: Mapping[str, Info]) -> Iterator[Candidate]:
    """Every match of a pattern."""
    for name, info in tensors.items():
        rank = len(trimmed(info.shape))
        if rank == 3:
            found = _match(name, name, "", _STACKED, tensors, stacked=True)
            if found is None and name.endswith(".output.dense.weight"):
                found = _match(name, split(name)[0], ".weight", _PLAIN, tensors, stacked=False)
        elif rank == 2:
            stem, suffix = split(name)
            found = _match(name, stem, suffix, _PLAIN, tensors, stacked=False)
            if found is None and not suffix:
                found = _match(name, name, "", _STACKED, tensors, stacked=True)
        else:
            continue
        if found is not None:
            yield found


def _match(
    name: str,
    stem: str,
    suffix: str,
    table: Mapping[str, list[Pattern]],
    tensors: Mapping[str, Info],
    *,
    stacked: bool,
) -> Candidate | None:
    """The first pattern whose W2 is `stem` and whose other matrices stand beside it."""
    rank = len(trimmed(tensors[name].shape))
    for pattern in table.get(stem.rpartition(".")[2], ()):
        parent = _parent(stem, pattern.W2)
        if parent is None:
            continue
        prefix = parent + "." if parent else ""
        others = [prefix + leaf + suffix for leaf in (pattern.W1, pattern.V) if leaf]
        if all(o in tensors and len(trimmed(tensors[o].shape)) == rank for o in others):
            return Candidate(parent, pattern, others[0], name, others[1] if pattern.V else None, stacked, suffix)
    return None


def _parent(stem: str, leaf: str) -> str | None:
    """The path before `leaf`, or None where the stem doesn't end in it."""
    if stem == leaf:
        return ""
    return stem[: -len(leaf) - 1] if stem.endswith("." + leaf) else None


def is_network_path(path: str) -> bool:
    """Whether the path's last component says that a feed-forward network lies under it."""
    last = path.rpartition(".")[2]
    if last in NETWORK_WORDS or last.startswith("expert_"):
        return True
    return _NETWORK.search(last) is not None and _HEADS.search(last) is None


def beside(names: Sequence[str], parent: str) -> Sequence[str]:
    """Of sorted names, those under a path."""
    if not parent:
        return names
    prefix = parent + "."
    return names[bisect_left(names, prefix) : bisect_left(names, parent + "/")]


def adapters(stem: str, names: Sequence[str]) -> list[int]:
    """The numbers of the low-rank additions that a shared block keeps, one for each layer that uses it."""
    parts = (whole(name[len(stem) + 1 :].partition(".")[0]) for name in beside(names, stem))
    return sorted({number for number in parts if number is not None})
