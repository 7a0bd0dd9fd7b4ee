"""From a store to its entries: every candidate named, numbered, decided, and in the order of the layers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from portable_ffn.checkpoint._config.gguf import gguf_config
from portable_ffn.checkpoint._entry import Entry
from portable_ffn.checkpoint._errors import CheckpointError, Undecided
from portable_ffn.checkpoint._facts.decide import Facts, Read, decide
from portable_ffn.checkpoint._facts.stages import unexplained
from portable_ffn.checkpoint._facts.sublayer import Placement, placement
from portable_ffn.checkpoint._layers.candidates import candidates
from portable_ffn.checkpoint._layers.consistency import incomplete, inconsistent, torn
from portable_ffn.checkpoint._layers.context import Question, Said, acceptable, ask
from portable_ffn.checkpoint._layers.numbering import One, idle, layers_of, variants
from portable_ffn.checkpoint._layers.paths import in_a_stack, natural, stack_of
from portable_ffn.checkpoint._own_file import is_own, read_own
from portable_ffn.checkpoint._tensors.store import Store


def entries(store: Store, facts: Facts) -> list[Entry]:
    """All feed-forward layers of a checkpoint, in the order of stacks and layers."""
    if is_own(store):
        return [_own(store, facts)]
    known: dict[str, Said] = {}
    config = gguf_config(store.config) if "general.architecture" in store.config else store.config
    asked = [ask(found, config, known) for found in candidates(store.logical)]
    accepted = [question for question in asked if acceptable(question, store.logical)]
    remains = [ask(found, config, known) for found in torn(asked, accepted, store.logical)]
    asked = [*accepted, *incomplete(asked, accepted), *(one for one in remains if not idle(one))]
    layered = [question for question in asked if in_a_stack(question.path)]
    # Networks outside any stack (projectors, heads) only where the file holds nothing else.
    asked = layered or asked
    names = sorted(store.logical)
    odd = inconsistent(asked, store.logical)
    ones = [one for question in asked for one in variants(question, store.logical, names)]
    layers = layers_of(ones)
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


def _entry(
    one: One,
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
        for key in keys:
            store.check_readable(key)
    except CheckpointError as error:
        problem = _with_hint(error, store)
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


def _with_hint(error: CheckpointError, store: Store) -> CheckpointError:
    """The error, with a word on the config.json that would settle what is undecided and was not read."""
    beside = store.config_beside
    if not isinstance(error, Undecided) or beside is None:
        return error
    hint = f"or give the directory {beside.parent}, whose config.json is not read with a file alone"
    return Undecided(f"{error}, {hint}", error.argument)


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


def _mark(one: One) -> str:
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
