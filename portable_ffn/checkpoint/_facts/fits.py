"""Whether what a recipe reads has the shapes of a network: settled from the headers, before a value is read."""

from collections.abc import Iterator, Mapping
from typing import Any

from portable_ffn._activations.learned import PReLU
from portable_ffn._arrays.kind import kind_of
from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._layers.candidates import Candidate, Info
from portable_ffn.checkpoint._loaded.recipe import Part, Recipe

Shape = tuple[int, ...]
# The parts of a network and their axes, by the two widths.
_AXES = {
    "W1": ("d_model", "d_ff"),
    "b1": ("d_ff",),
    "W2": ("d_ff", "d_out"),
    "b2": ("d_out",),
    "V": ("d_model", "d_ff"),
    "c": ("d_ff",),
}


def check_there(candidate: Candidate, tensors: Mapping[str, Info], packed: int) -> None:
    """CheckpointError where a matrix is missing, or the tensors of a stack of experts differ in their number."""
    keys = [key for key in (candidate.W1, candidate.V, candidate.W2) if key is not None]
    for key in keys:
        if key not in tensors:
            raise CheckpointError(f"{key} must be there, a matrix of the network, and it is missing")
    if not candidate.stacked or packed:
        return
    count = tensors[candidate.W2].shape[:1]
    for key in (*keys, *(name for name in map(candidate.bias, keys) if name in tensors)):
        if tensors[key].shape[:1] != count:
            raise CheckpointError(
                f"{key} must stack as many experts as {candidate.W2}, of shape {tensors[candidate.W2].shape}, got "
                f"shape {tensors[key].shape}"
            )


def check_fits(recipe: Recipe, tensors: Mapping[str, Info], d_model: int, d_ff: int, d_out: int | None = None) -> None:
    """CheckpointError where a matrix, a bias or a vector of a norm would be read in another shape than it must have.

    d_out is d_model where it is None; a network whose input is added at its end has no other.
    """
    d_out = d_model if d_out is None else d_out
    if d_out != d_model and (recipe.residual or recipe.after_residual):
        raise CheckpointError(f"{recipe.W2.key} must have d_model = {d_model} outputs to be added to x, got {d_out}")
    widths = {"d_model": d_model, "d_ff": d_ff, "d_out": d_out}
    if not d_model or not d_ff:
        raise CheckpointError(
            f"{recipe.W1.key} and {recipe.W2.key} must hold numbers, got d_model = {d_model} and d_ff = {d_ff}"
        )
    for name, axes in _AXES.items():
        part: Part | None = getattr(recipe, name)
        if part is None:
            continue
        must = tuple(widths[axis] for axis in axes)
        got = part.shape_of(tensors[part.key].shape)
        if got != must:
            told = "" if got is None or got == tensors[part.key].shape else f", read as {got}"
            raise CheckpointError(
                f"{part.key} must give {name} of shape ({', '.join(axes)}{',' * (len(axes) == 1)}) = {must}, got a "
                f"tensor of shape {tensors[part.key].shape}{told}"
            )
    for key, width in _vectors(recipe, d_model, d_ff, d_out):
        if tensors[key].shape != (width,):
            raise CheckpointError(f"{key} must have shape ({width},), got {tensors[key].shape}")


def _vectors(recipe: Recipe, d_model: int, d_ff: int, d_out: int) -> Iterator[tuple[str, int]]:
    """The vectors of the norms inside, each with its length."""
    for norm, width in ((recipe.before, d_model), (recipe.middle, d_ff), (recipe.after, d_out)):
        for key in (norm.gamma, norm.beta) if norm is not None else ():
            if key is not None:
                yield key, width


def check_learned(learned: tuple[str, ...], activation: str, tensors: Mapping[str, Info], d_ff: int) -> None:
    """CheckpointError where an activation's own weights are of another number than it has.

    PReLU has one slope or one a channel; each number of XIELU stands alone.
    """
    for key in learned:
        shape = tensors[key].shape
        allowed = ((), (1,), (d_ff,)) if activation == "prelu" else ((), (1,))
        if shape not in allowed:
            raise CheckpointError(f"{key} must have shape {' or '.join(map(str, allowed))}, got {shape}")


def check_activation(activation: Any, d_ff: int, gated: bool, error: type[ValueError] = CheckpointError) -> None:
    """An error where an activation can't be that of a network of this width, or of one with a single branch."""
    if isinstance(activation, PReLU) and isinstance(activation.weight, tuple) and len(activation.weight) != d_ff:
        raise error(f"PReLU must have one slope, or d_ff = {d_ff} of them, got {len(activation.weight)}")
    if hasattr(activation, "gate") and not gated:
        raise error(
            f"the activation must be a function of one array in a network without V, got the gate {kind_of(activation)}"
        )
