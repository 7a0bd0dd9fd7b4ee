"""Whether the router and the projections of a mixture fit its networks: settled from the headers."""

from collections.abc import Iterator, Mapping

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._facts.block import BlockRecipe
from portable_ffn.checkpoint._layers.candidates import Info
from portable_ffn.experts._arguments import routing_faults

Shapes = tuple[tuple[int, ...], ...]


def check_block(
    recipe: BlockRecipe, tensors: Mapping[str, Info], experts: int, widths: frozenset[int], shared: int | None
) -> None:
    """CheckpointError where a tensor of the block has another shape than its networks ask for.

    `widths` are the experts' d_model, of which there must be one; `shared` is that of the shared network.
    """
    rows, d_model = tensors[recipe.W].shape
    if recipe.inward is not None and recipe.outward is not None:
        inside = {tensors[recipe.inward[0]].shape[0]} if tensors[recipe.inward[0]].shape else set()
    else:
        inside = {d_model}
    if widths != inside or shared not in (None, d_model):
        told = ", ".join(map(str, sorted(widths))) + ("" if shared is None else f" and, shared, {shared}")
        raise CheckpointError(
            f"{recipe.W}, of shape {(rows, d_model)}, must have the experts' d_model, and they have {told}"
        )
    for key, shapes in _wanted(recipe, d_model, next(iter(inside)), experts + recipe.identities):
        if tensors[key].shape not in shapes:
            must = " or ".join(map(str, shapes))
            raise CheckpointError(f"{key} must have shape {must}, got {tensors[key].shape}")
    for norm in (recipe.after, None if recipe.inward is None else recipe.inward[2]):
        if norm is not None and norm.eps < 0:
            raise CheckpointError(f"the eps of {norm.gamma} must be zero or more, got {norm.eps}")
    for fault in routing_faults(experts + recipe.identities, recipe.routing):
        raise CheckpointError(f"{recipe.W}: {fault}; the config is another model's, or damaged")


def _wanted(recipe: BlockRecipe, d_model: int, inside: int, experts: int) -> Iterator[tuple[str, Shapes]]:
    """Each tensor beside the router's matrix, and the shapes that it may have."""
    for key in (recipe.b, recipe.selection_bias):
        if key is not None:
            yield key, ((experts,), (1, experts))
    if recipe.shared_gate is not None:
        yield recipe.shared_gate, ((1, d_model), (d_model,))
    if recipe.bias is not None:
        yield recipe.bias, ((d_model,), (1, d_model))
    if recipe.after is not None and recipe.after.gamma is not None:
        yield recipe.after.gamma, ((d_model,),)
    if recipe.inward is not None and recipe.outward is not None:
        yield recipe.inward[0], ((inside, d_model),)
        yield recipe.outward[0], ((d_model, inside),)
        for bias, width in ((recipe.inward[1], inside), (recipe.outward[1], d_model)):
            if bias is not None:
                yield bias, ((width,), (1, width))
        if recipe.inward[2] is not None and recipe.inward[2].gamma is not None:
            yield recipe.inward[2].gamma, ((inside,),)
