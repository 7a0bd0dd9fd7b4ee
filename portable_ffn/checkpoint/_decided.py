"""From one network to its entry: decided, or with the problem that says why not. A bad layer never hides a good one."""

from collections.abc import Mapping, Sequence

from portable_ffn.checkpoint._entry import Entry
from portable_ffn.checkpoint._errors import CheckpointError, Undecided, guarded
from portable_ffn.checkpoint._facts.decide import Decision, decide
from portable_ffn.checkpoint._facts.given import Facts
from portable_ffn.checkpoint._facts.stages import unexplained
from portable_ffn.checkpoint._facts.sublayer import Placement, placement
from portable_ffn.checkpoint._layers.candidates import Candidate
from portable_ffn.checkpoint._layers.context import Layer
from portable_ffn.checkpoint._layers.no_network import stands_between
from portable_ffn.checkpoint._layers.numbering import NetworkSlice
from portable_ffn.checkpoint._layers.paths import stack_of
from portable_ffn.checkpoint._own_file import read_own
from portable_ffn.checkpoint._tensors.store import Store


def own_entry(store: Store, facts: Facts) -> Entry:
    """The entry of this library's own file."""
    problem: CheckpointError | None = None
    decision: Decision | None = None
    shapes = {name: info.shape for name, info in store.tensors.items()}
    try:
        with guarded(str(store.path)):
            recipe, chosen, d_model, d_ff = read_own(store, facts.of("main").activation)
            for key in tuple(recipe.keys()):
                store.check_readable(key)
        form = "dense" if recipe.V is None else "gated"
        decision = Decision(recipe, form, chosen, d_model, d_ff, ("names: this library's own", chosen.reason))
    except CheckpointError as error:
        problem = error
    return Entry(
        name="",
        stack="main",
        layer=0,
        form="gated" if "V" in shapes else "dense",
        activation=decision.activation.activation if decision else None,
        d_model=decision.d_model if decision else None,
        d_ff=decision.d_ff if decision else None,
        dtype=store.tensors["W1"].dtype,
        tensors=tuple(sorted(shapes)),
        evidence=decision.evidence if decision else (),
        problem=problem,
        store=store,
        decision=decision,
    )


def entry_of(
    one: NetworkSlice,
    number: int,
    store: Store,
    names: Sequence[str],
    facts: Facts,
    odd: Mapping[str, str],
    uneven: frozenset[str],
) -> Entry:
    """The entry of one network, with its problem where it can't be decided."""
    layer, candidate = one.layer, one.layer.candidate
    stack = stack_of(layer.path, layer.scope.says_text)
    decision: Decision | None = None
    problem: CheckpointError | None = None
    try:
        with guarded(candidate.parent or candidate.W2):
            if candidate.W2 in odd:
                raise CheckpointError(
                    f"{candidate.parent} must hold what the other layers of its stack do, and "
                    f"{odd[candidate.W2]} is missing; the checkpoint is damaged, or has layers of two kinds"
                )
            store.check_formats(candidate.matrices)
            _refuse_between(candidate, names, layer, store)
            decision = decide(
                layer, store.logical, facts.of(stack), number, one.slice, one.adapter, candidate.W2 in uneven
            )
            keys = tuple(decision.recipe.keys())
            _refuse_unread(candidate, names, keys, layer)
            for key in keys:
                store.check_readable(key)
    except CheckpointError as error:
        problem = _with_hint(error, store)
        keys = tuple(key for key in candidate.matrices if key in store.logical)
    tensors = tuple(dict.fromkeys(source for key in keys for source in store.sources(key)))
    return Entry(
        name=_common_path(keys),
        stack=stack,
        layer=number,
        form=decision.form if decision else "expert" if layer.is_expert else "gated" if candidate.V else "dense",
        activation=decision.activation.activation if decision else None,
        d_model=decision.d_model if decision else None,
        d_ff=decision.d_ff if decision else None,
        dtype=store.dtype_in_words(candidate.matrices),
        tensors=tensors,
        evidence=(*decision.evidence, *store.notes) if decision else (),
        expert=one.expert,
        problem=problem,
        store=store,
        decision=decision,
        mark=_mark(one),
        placement=_placement(layer, decision, store),
    )


def _refuse_unread(candidate: Candidate, names: Sequence[str], keys: Sequence[str], layer: Layer) -> None:
    """CheckpointError where the network's path holds tensors that nothing reads."""
    left = unexplained(candidate, names, frozenset(keys), layer.family, layer.is_expert)
    if left:
        raise CheckpointError(
            f"{candidate.parent} must hold a plain network to be understood, and it also holds "
            f"{', '.join(left[:3])}{' ...' if len(left) > 3 else ''}, whose part in it is not known"
        )


def _refuse_between(candidate: Candidate, names: Sequence[str], layer: Layer, store: Store) -> None:
    """CheckpointError where what is named as a network is none: no argument would make it one."""
    between = None if layer.family.accept else stands_between(candidate, store.logical, names)
    if between is not None:
        raise CheckpointError(
            f"{candidate.parent} must hold a plain network to be understood, and it also holds {between}: something "
            "stands between its matrices, or its result is a gate"
        )


def _with_hint(error: CheckpointError, store: Store) -> CheckpointError:
    """The error, with a word on the config.json that would settle what is undecided and was not read."""
    beside = store.config_beside
    if not isinstance(error, Undecided) or beside is None:
        return error
    hint = f"or give the directory {beside.parent}, whose config.json is not read with a file alone"
    return Undecided(f"{error}, {hint}", error.argument)


def _placement(layer: Layer, decision: Decision | None, store: Store) -> Placement | None:
    """What stands round a network; nothing is said of one expert of several."""
    if decision is None or layer.is_expert:
        return None
    found = placement(layer.scope, layer.candidate.parent, store.logical, decision.d_model)
    try:
        for norm in (found.before, found.after, found.post) if found is not None else ():
            for key in (norm.gamma, norm.beta) if norm is not None else ():
                if key is not None:
                    store.check_readable(key)
    except CheckpointError as error:
        return Placement(problem=error)
    return found


def _common_path(keys: Sequence[str]) -> str:
    """The longest dotted path that holds all of the tensors."""
    split = [key.split(".") for key in keys]
    common = []
    for parts in zip(*split, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return ".".join(common if len(keys) > 1 else common[:-1])


def _mark(one: NetworkSlice) -> str:
    """What tells a network from another of the same path: its number, or the name of its first matrix."""
    if one.adapter is not None:
        return str(one.adapter)
    if one.slice is not None:
        return str(one.slice)
    return one.layer.candidate.pattern.W1.split(".")[0]
