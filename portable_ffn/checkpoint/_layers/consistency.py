"""Whether the layers of a stack hold the same matrices and biases: one that lacks some is damaged, not smaller."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from portable_ffn.checkpoint._layers.candidates import Candidate, Info, split
from portable_ffn.checkpoint._layers.context import Layer
from portable_ffn.checkpoint._layers.paths import shape, unwrap


def incomplete(layers: Sequence[Layer], accepted: Sequence[Layer]) -> list[Layer]:
    """Candidates too bare to count anywhere else, in a stack whose other layers are whole."""
    whole = {(shape(layer.path), layer.candidate.pattern.W2) for layer in accepted}
    return [
        layer
        for layer in layers
        if layer.candidate.pattern.rare
        and (shape(layer.path), layer.candidate.pattern.W2) in whole
        and layer.candidate.pattern not in {one.candidate.pattern for one in accepted}
    ]


def torn(layers: Sequence[Layer], accepted: Sequence[Layer], tensors: Mapping[str, Info]) -> list[Candidate]:
    """Layers of which so much is lost that what is left looks like no network, in a stack whose others are whole.

    The names are those that the layer would have; some are not among the tensors.
    """
    stacks = {(shape(one.path), one.candidate.pattern, one.candidate.suffix): one.candidate for one in accepted}
    # By the end of a matrix's name, of which there are few, and the path before it, of which there may be many.
    ends: dict[str, set[str]] = defaultdict(set)
    wholes: dict[tuple[str, str], Candidate] = {}
    for (path, _, _), whole in stacks.items():
        for key in (whole.W1, whole.V, whole.W2):
            if key is not None and not whole.stacked:
                end = key[len(whole.parent) :]
                ends[_leaf(key)].add(end)
                wholes[path, end] = whole
    taken = {one.candidate.parent for one in layers}
    found: dict[str, Candidate] = {}
    for name in tensors:
        for end in ends.get(_leaf(name), ()):
            parent = name.removesuffix(end)
            if parent != name and parent not in taken:
                known = wholes.get((shape(unwrap(parent)), end))
                if known is not None:
                    found[parent] = known.at(parent)
    return list(found.values())


def _leaf(name: str) -> str:
    """The last component of a tensor's name without its suffix."""
    return split(name)[0].rpartition(".")[2]


def inconsistent(layers: Sequence[Layer], tensors: Mapping[str, Info]) -> dict[str, str]:
    """The W2 of layers that lack a matrix or a bias which the other layers of their stack have, and what they lack."""
    stacks: dict[tuple[str, str], list[tuple[Layer, frozenset[str]]]] = defaultdict(list)
    for layer in layers:
        candidate = layer.candidate
        keys = [key for key in (candidate.W1, candidate.W2, candidate.V) if key]
        have = [key for key in (*keys, *map(candidate.bias, keys)) if key in tensors]
        parts = frozenset(key[len(candidate.parent) :] for key in have)
        stacks[shape(layer.path), candidate.pattern.W2].append((layer, parts))
    lacking: dict[str, str] = {}
    for members in stacks.values():
        kinds = {parts for _, parts in members}
        # Layers of two kinds may follow each other; one that has all that another has, and more, is a whole one.
        wider = {parts: max((kind for kind in kinds if parts < kind), key=len, default=parts) for parts in kinds}
        for layer, parts in members:
            if missing := wider[parts] - parts:
                lacking[layer.candidate.W2] = ", ".join(sorted(layer.candidate.parent + part for part in missing))
    return lacking


def unequal(layers: Sequence[Layer], tensors: Mapping[str, Info]) -> frozenset[str]:
    """The W2 of layers of a stack whose layers differ in shape among each other, so that no width is that of all."""
    stacks: dict[tuple[str, str], list[str]] = defaultdict(list)
    for layer in layers:
        if layer.candidate.W2 in tensors:
            stacks[shape(layer.path), layer.candidate.pattern.W2].append(layer.candidate.W2)
    return frozenset(
        key for members in stacks.values() if len({tensors[key].shape for key in members}) > 1 for key in members
    )
