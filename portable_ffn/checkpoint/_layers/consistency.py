"""Whether the layers of a stack hold the same matrices and biases: one that lacks some is damaged, not smaller."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from portable_ffn.checkpoint._layers.candidates import Candidate, Info, split
from portable_ffn.checkpoint._layers.context import Question
from portable_ffn.checkpoint._layers.paths import shape, unwrap


def incomplete(asked: Sequence[Question], accepted: Sequence[Question]) -> list[Question]:
    """Candidates too bare to count anywhere else, in a stack whose other layers are whole."""
    whole = {(shape(question.path), question.found.pattern.W2) for question in accepted}
    return [
        question
        for question in asked
        if question.found.pattern.rare
        and (shape(question.path), question.found.pattern.W2) in whole
        and question.found.pattern not in {one.found.pattern for one in accepted}
    ]


def torn(asked: Sequence[Question], accepted: Sequence[Question], tensors: Mapping[str, Info]) -> list[Candidate]:
    """Layers of which so much is lost that what is left looks like no network, in a stack whose others are whole.

    The names are those that the layer would have; some are not among the tensors.
    """
    stacks = {(shape(one.path), one.found.pattern, one.found.suffix): one.found for one in accepted}
    ends: dict[str, list[tuple[str, str, Candidate]]] = defaultdict(list)
    for (path, _, _), whole in stacks.items():
        for key in (whole.W1, whole.V, whole.W2):
            if key is not None and not whole.stacked:
                ends[_leaf(key)].append((path, key[len(whole.parent) :], whole))
    taken = {one.found.parent for one in asked}
    found: dict[str, Candidate] = {}
    for name in tensors:
        for path, end, whole in ends.get(_leaf(name), ()):
            parent = name.removesuffix(end)
            if parent != name and parent not in taken and shape(unwrap(parent)) == path:
                found[parent] = whole.at(parent)
    return list(found.values())


def _leaf(name: str) -> str:
    """The last component of a tensor's name without its suffix."""
    return split(name)[0].rpartition(".")[2]


def inconsistent(asked: Sequence[Question], tensors: Mapping[str, Info]) -> dict[str, str]:
    """The W2 of layers that lack a matrix or a bias which the other layers of their stack have, and what they lack."""
    stacks: dict[tuple[str, str], list[tuple[Question, frozenset[str]]]] = defaultdict(list)
    for question in asked:
        found = question.found
        keys = [key for key in (found.W1, found.W2, found.V) if key]
        have = [key for key in (*keys, *map(found.bias, keys)) if key in tensors]
        parts = frozenset(key[len(found.parent) :] for key in have)
        stacks[shape(question.path), found.pattern.W2].append((question, parts))
    lacking: dict[str, str] = {}
    for members in stacks.values():
        kinds = {parts for _, parts in members}
        # Layers of two kinds may follow each other; one that has all that another has, and more, is a whole one.
        wider = {parts: max((kind for kind in kinds if parts < kind), key=len, default=parts) for parts in kinds}
        for question, parts in members:
            if missing := wider[parts] - parts:
                lacking[question.found.W2] = ", ".join(sorted(question.found.parent + part for part in missing))
    return lacking
