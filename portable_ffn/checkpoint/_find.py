"""From a store to its entries: every candidate named, numbered, decided, and in the order of the layers."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from portable_ffn.checkpoint._candidates import candidates
from portable_ffn.checkpoint._consistency import incomplete, inconsistent, torn
from portable_ffn.checkpoint._decide import Facts, Read, count_experts, decide
from portable_ffn.checkpoint._entry import Entry
from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._gguf_config import gguf_config
from portable_ffn.checkpoint._inside import adapters, unexplained
from portable_ffn.checkpoint._own import is_own, read_own
from portable_ffn.checkpoint._placement import Placement, placement
from portable_ffn.checkpoint._places import in_a_stack, layer_numbers, natural, shape, stack_of
from portable_ffn.checkpoint._question import Question, Said, acceptable, ask
from portable_ffn.checkpoint._store import Store, TensorInfo


class _One(NamedTuple):
    """A network to be: a candidate, which slice of its stacks, which low-rank addition, and which expert it is."""

    question: Question
    slice: int | None = None
    adapter: int | None = None
    expert: int | None = None


def entries(store: Store, facts: Facts) -> list[Entry]:
    """All feed-forward layers of a checkpoint, in the order of stacks and layers."""
    if is_own(store):
        return [_own(store, facts)]
    known: dict[str, Said] = {}
    config = gguf_config(store.config) if "general.architecture" in store.config else store.config
    asked = [ask(found, config, known) for found in candidates(store.logical)]
    accepted = [question for question in asked if acceptable(question, store.logical)]
    remains = [ask(found, config, known) for found in torn(asked, accepted, store.logical)]
    asked = [*accepted, *incomplete(asked, accepted), *(one for one in remains if not _idle(one))]
    layered = [question for question in asked if in_a_stack(question.path)]
    # Networks outside any stack (projectors, heads) only where the file holds nothing else.
    asked = layered or asked
    names = sorted(store.logical)
    odd = inconsistent(asked, store.logical)
    ones = [one for question in asked for one in _variants(question, store.logical, names)]
    layers = _layers(ones)
    made = [_entry(one, layer, store, names, facts, odd) for one, layer in zip(ones, layers, strict=True)]
    return _unique(sorted(made, key=_order))


def _own(store: Store, facts: Facts) -> Entry:
    """The entry of this library's own file."""
    problem: CheckpointError | None = None
    read: Read | None = None
    shapes = {name: info.shape for name, info in store.tensors.items()}
    try:
        recipe, chosen = read_own(store, facts.activation)
        form = "dense" if recipe.V is None else "gated"
        d_model, d_ff = shapes["W1"]
        read = Read(recipe, form, chosen, d_model, d_ff, ("names: this library's own", chosen.reason))
    except CheckpointError as error:
        problem = error
    return Entry(
        name="",
        stack="main",
        layer=0,
        form="gated" if "V" in shapes else "dense",
        activation=read.activation.activation if read else None,
        d_model=read.d_model if read else None,
        d_ff=read.d_ff if read else None,
        dtype=store.tensors["W1"].dtype,
        tensors=tuple(sorted(shapes)),
        evidence=read.evidence if read else (),
        problem=problem,
        store=store,
        read=read,
    )


def _variants(question: Question, tensors: Mapping[str, TensorInfo], names: Sequence[str]) -> list[_One]:
    """The networks of one candidate: one, or each expert of a stack, or each use of a shared block."""
    lora = question.family.lora
    if lora is not None:
        used = adapters(f"{question.found.parent}.{lora}", names)
        if used:
            return [_One(question, adapter=adapter) for adapter in used]
    try:
        count = count_experts(question, tensors)
    except CheckpointError:
        count = None
    if count is None:
        return [_One(question, expert=_expert_number(question.path))]
    shared = any(part.startswith("share") for part in question.path.split("."))
    return [_One(question, index, expert=None if shared else index) for index in range(count)]


def _expert_number(path: str) -> int | None:
    """N of experts.N or experts.expert_N at a path's end."""
    head, _, last = path.rpartition(".")
    last = last.removeprefix("expert_")
    return int(last) if last.isdigit() and head.rpartition(".")[2] == "experts" else None


def _idle(question: Question) -> bool:
    """Whether it is an expert past those that the config counts: LongCat's zero experts hold what nothing reads."""
    number, count = _expert_number(question.path), question.scope.get("n_routed_experts")
    return number is not None and isinstance(count, int) and number >= count


def _home(one: _One) -> str:
    """The path that is counted as a layer: an expert's is that of all experts."""
    path = one.question.path
    if one.expert is not None and not one.question.found.stacked:
        path = path.rpartition(".")[0]
    return path


def _layers(ones: Sequence[_One]) -> list[int]:
    """The layer's number of each."""
    groups: dict[str, list[int]] = defaultdict(list)
    homes = [_home(one) for one in ones]
    for i, home in enumerate(homes):
        groups[shape(home)].append(i)
    found = [0] * len(ones)
    for members in groups.values():
        for i, layer in zip(members, layer_numbers([homes[i] for i in members]), strict=True):
            found[i] = layer
    for i, one in enumerate(ones):
        if one.adapter is not None:
            # A shared block keeps an addition for each layer that uses it, in the order of these layers.
            uses = one.question.scope.get("hybrid_layer_ids")
            use = uses[one.adapter] if isinstance(uses, list) and one.adapter < len(uses) else one.adapter
            found[i] = use if isinstance(use, int) else one.adapter
    return found


def _entry(
    one: _One,
    layer: int,
    store: Store,
    names: Sequence[str],
    facts: Facts,
    odd: Mapping[str, str],
) -> Entry:
    """The entry of one network, with its problem where it can't be decided."""
    question, found = one.question, one.question.found
    read: Read | None = None
    problem: CheckpointError | None = None
    try:
        if found.W2 in odd:
            raise CheckpointError(
                f"{found.parent} must hold what the other layers of its stack do, and "
                f"{odd[found.W2]} is missing; the checkpoint is damaged, or has layers of two kinds"
            )
        read = decide(question, store.logical, facts, layer, one.slice, one.adapter)
        keys = tuple(read.recipe.keys())
        left = unexplained(found, names, frozenset(keys), question.family, question.is_expert)
        if left:
            raise CheckpointError(
                f"{found.parent} must hold a plain network to be understood, and it also holds {', '.join(left[:3])}"
                f"{' ...' if len(left) > 3 else ''}, whose part in it is not known"
            )
    except CheckpointError as error:
        problem = error
        keys = tuple(key for key in (found.W1, found.V, found.W2) if key and key in store.logical)
    tensors = tuple(dict.fromkeys(source for key in keys for source in store.sources(key)))
    return Entry(
        name=_common_path(keys),
        stack=stack_of(question.path, question.scope.says_text),
        layer=layer,
        form=read.form if read else "expert" if question.is_expert else "gated" if found.V else "dense",
        activation=read.activation.activation if read else None,
        d_model=read.d_model if read else None,
        d_ff=read.d_ff if read else None,
        dtype=store.logical[keys[0]].dtype,
        tensors=tensors,
        evidence=read.evidence if read else (),
        expert=one.expert,
        problem=problem,
        store=store,
        read=read,
        mark=_mark(one),
        placement=_placement(question, read, store),
    )


def _placement(question: Question, read: Read | None, store: Store) -> Placement | None:
    """What stands round a network; nothing is said of one expert of several."""
    if read is None or question.is_expert:
        return None
    return placement(question.scope, question.found.parent, store.logical)


def _common_path(keys: Sequence[str]) -> str:
    """The longest dotted path that holds all of the tensors."""
    split = [key.split(".") for key in keys]
    common = []
    for parts in zip(*split, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return ".".join(common if len(keys) > 1 else common[:-1])


def _mark(one: _One) -> str:
    """What tells a network from another of the same path: its number, or the name of its first matrix."""
    if one.adapter is not None:
        return str(one.adapter)
    if one.slice is not None:
        return str(one.slice)
    return one.question.found.pattern.W1.split(".")[0]


def _order(entry: Entry) -> tuple[object, ...]:
    """By path with numbers in their natural order, then by expert."""
    return natural(entry.name), entry.layer, -1 if entry.expert is None else entry.expert, entry.mark


def _unique(made: Sequence[Entry]) -> list[Entry]:
    """Names made unique."""
    counts = Counter(entry.name for entry in made)
    return [replace(e, name=f"{e.name}#{e.mark}") if counts[e.name] > 1 else e for e in made]
