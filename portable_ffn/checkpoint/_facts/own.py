"""What the metadata of this library's own file say, typed strictly: what `save` can't have written is refused."""

import math
from collections.abc import Mapping
from typing import Any, Final

from portable_ffn import ACTIVATIONS
from portable_ffn._activations.serial import from_dict
from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.json import parse_object
from portable_ffn.checkpoint._loaded.recipe import NORMS, NormRecipe
from portable_ffn.checkpoint._tensors.store import Store

PLACES: Final = ("before", "middle", "after")
_SWITCHES: Final = ("after_residual", "residual")


def own_activation(store: Store) -> Any:
    """The activation that a file keeps: a name, or an object with its numbers."""
    text = store.metadata["activation"]
    if not text.startswith("{"):
        if text not in ACTIVATIONS:
            raise CheckpointError(f"{store.path}: keeps the activation {text[:100]!r}, which is none that is known")
        return text
    found = parse_object(text.encode("utf-8", "surrogatepass"), f"{store.path}: the activation in its metadata")
    try:
        return from_dict(found)
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
        raise CheckpointError(f"{store.path}: keeps an activation that is damaged: {text[:100]!r}") from error


def own_stages(store: Store) -> dict[str, Any]:
    """What stands round the matrices, as the fields of a recipe."""
    text = store.metadata.get("stages", "{}")
    where = f"{store.path}: the stages in its metadata"
    found = parse_object(text.encode("utf-8", "surrogatepass"), where)
    unknown = sorted(found.keys() - {*_SWITCHES, *PLACES, "scale"})
    if unknown:
        raise CheckpointError(f"{where} hold {unknown[0][:100]!r}, which is none that is known")
    for name in _SWITCHES:
        if not isinstance(found.get(name, False), bool):
            raise CheckpointError(f"{where}: {name} must be true or false, got {str(found[name])[:80]!r}")
    stages = {name: found.get(name, False) for name in _SWITCHES}
    norms = {place: _norm(store, f"{where}: {place}", place, found.get(place)) for place in PLACES}
    return {**stages, **norms, "scale": _number(f"{where}: scale", found.get("scale", 1.0))}


def _norm(store: Store, where: str, place: str, said: Any) -> NormRecipe | None:
    """One normalisation that the file keeps."""
    gamma, beta = (name if name in store.tensors else None for name in (f"{place}.gamma", f"{place}.beta"))
    if said is None:
        if gamma or beta:
            raise CheckpointError(f"{where} must say what {gamma or beta} is for, and says nothing")
        return None
    if not isinstance(said, Mapping) or said.keys() != {"kind", "eps"} or said["kind"] not in NORMS:
        raise CheckpointError(f"{where} must have a kind, one of {', '.join(NORMS)}, and eps, got {str(said)[:80]!r}")
    eps = _number(f"{where}: eps", said["eps"])
    if eps < 0:
        raise CheckpointError(f"{where}: eps must be zero or more, got {eps}")
    return NormRecipe(said["kind"], gamma, beta, eps)


def _number(where: str, value: Any) -> float:
    """A finite number of the metadata."""
    if type(value) in (int, float) and abs(value) < 1e308 and math.isfinite(value):
        return float(value)
    raise CheckpointError(f"{where} must be a finite number, got {str(value)[:80]!r}")
