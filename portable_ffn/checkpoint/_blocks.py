"""Experts that one router mixes, made into one entry: the block, with its experts and what is shared inside it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from portable_ffn.checkpoint._entry import Entry
from portable_ffn.checkpoint._errors import CheckpointError, guarded
from portable_ffn.checkpoint._facts.block import BlockRecipe, decide_block
from portable_ffn.checkpoint._facts.block_fits import check_block
from portable_ffn.checkpoint._layers.context import Layer
from portable_ffn.checkpoint._tensors.store import Store


def with_blocks(made: Sequence[tuple[Entry, Layer]], store: Store, names: Sequence[str]) -> list[Entry]:
    """The entries, those of one block's networks as the parts of one."""
    experts: dict[tuple[str, int], list[tuple[Entry, Layer]]] = {}
    for entry, layer in made:
        if entry.expert is not None:
            experts.setdefault((_home(entry), entry.layer), []).append((entry, layer))
    inside = {home: [e for e, layer in made if _shared_in(e, layer, home[0], home[1])] for home in experts}
    taken = {id(e) for members in experts.values() for e, _ in members} | {id(e) for es in inside.values() for e in es}
    rest = [entry for entry, _ in made if id(entry) not in taken]
    blocks = [_block(home[0], members, inside[home], store, names) for home, members in experts.items()]
    # Where token ids choose the experts, the block is no function of x, and what is shared still is.
    by_ids = [name for name in names if name.endswith("tid2eid")]
    alone = [b.shared for b in blocks if b.shared and any(name.startswith(b.name + ".") for name in by_ids)]
    return [*rest, *alone, *blocks]


def _home(entry: Entry) -> str:
    """The path of the block that an expert belongs to."""
    parts = entry.base.split(".")
    if "experts" in parts:
        return ".".join(parts[: len(parts) - 1 - parts[::-1].index("experts")])
    return entry.base


def _shared_in(entry: Entry, layer: Layer, home: str, number: int) -> bool:
    """Whether a network is the one that all tokens of a block go through."""
    if entry.expert is not None or not layer.is_expert or entry.layer != number:
        return False
    return entry.base.startswith(home + ".") or entry.base == home


def _block(
    home: str, members: Sequence[tuple[Entry, Layer]], shared: Sequence[Entry], store: Store, names: Sequence[str]
) -> Entry:
    """The entry of one block, with its problem where it isn't understood."""
    experts = sorted((entry for entry, _ in members), key=lambda entry: entry.expert or 0)
    if len({entry.name for entry in experts}) < len(experts):
        experts = [replace(entry, name=f"{entry.name}#{entry.mark}") for entry in experts]
    first, layer = members[0][0], members[0][1]
    problem: CheckpointError | None = None
    recipe: BlockRecipe | None = None
    parts = [*experts, *shared]
    keys = frozenset(key for e in parts if e.decision is not None for key in tuple(e.decision.recipe.keys()))
    try:
        with guarded(home or "the mixture"):
            problem = next((e.problem for e in parts if e.problem is not None), None)
            if problem is None:
                if len(shared) > 1:
                    raise CheckpointError(f"{home} must hold one shared network, and it holds {len(shared)}")
                if [e.expert for e in experts] != list(range(len(experts))):
                    raise CheckpointError(f"{home} must hold experts 0 to {len(experts) - 1}, and some are missing")
                recipe = decide_block(
                    home, keys, store.logical, names, layer.scope, len(experts), first.layer, bool(shared)
                )
                for key in recipe.read():
                    store.check_readable(key)
                widths = frozenset(e.d_model for e in experts if e.d_model is not None)
                check_block(recipe, store.logical, len(experts), widths, shared[0].d_model if shared else None)
    except CheckpointError as error:
        problem = error
    own = () if recipe is None else recipe.read()
    tensors = dict.fromkeys(source for key in own for source in store.sources(key))
    tensors.update(dict.fromkeys(tensor for e in parts for tensor in e.tensors))
    evidence = (*first.evidence, f"experts: {len(experts)}", *(() if recipe is None else (recipe.evidence,)))
    return replace(
        first,
        name=home or first.base,
        form="experts",
        tensors=tuple(tensors),
        evidence=tuple(line for line in evidence if not line.startswith("expert:")),
        expert=None,
        problem=problem,
        decision=None,
        mark="experts",
        placement=None,
        block=recipe,
        experts=tuple(experts),
        shared=shared[0] if shared else None,
        d_model=layer_width(recipe, store.logical) or first.d_model,
    )


def layer_width(recipe: BlockRecipe | None, tensors: Mapping[str, object]) -> int | None:
    """The width of what the router sees, which is the layer's where the experts work in a narrower one."""
    return None if recipe is None else int(tensors[recipe.W].shape[1])  # type: ignore[attr-defined]
