"""The file of one network that this library writes itself: arrays W1 ... c, the rest of it in the metadata."""

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from portable_ffn import ACTIVATIONS, Weights
from portable_ffn._activations.serial import from_dict, to_dict
from portable_ffn._arrays.kind import kind_of
from portable_ffn.checkpoint._config.spellings import fact
from portable_ffn.checkpoint._errors import CheckpointError, Undecided
from portable_ffn.checkpoint._facts.activation import ActivationChoice
from portable_ffn.checkpoint._files.save import save_tensors
from portable_ffn.checkpoint._loaded.network import Network, Norm
from portable_ffn.checkpoint._loaded.recipe import NORMS, NormRecipe, Part, Recipe
from portable_ffn.checkpoint._tensors.store import Store

_MARK: Final = "portable_ffn"
_VERSION: Final = "1"
_STAGES: Final = ("before", "middle", "after")


def save(path: str | os.PathLike[str], obj: Any, *, activation: Any = None) -> None:
    """Write one network to a .safetensors file, so that `load` reads it back equal.

    Parameters
    ----------
    path : str or os.PathLike
        Must end in .safetensors; a file that is there is replaced.
    obj : Weights or a loaded network
        Of any library; transposed and sliced views too.
    activation : str or object, optional
        A name, or an object of this library's such as `ClippedGate`; that of a loaded network where None. A file
        of weights without any asks for it when it is loaded.

    Raises
    ------
    TypeError
        For an obj of another kind, or an activation that a file can't hold, such as a function of the caller's.
    ValueError
        For a name of no activation, or a path of another ending.
    """
    network = obj if isinstance(obj, Network) else None
    if network is None and not isinstance(obj, Weights):
        raise TypeError(f"obj must be Weights or a loaded network, got {kind_of(obj)}")
    weights = obj if network is None else network.weights
    if activation is None and network is not None:
        activation = network.activation
    tensors = {name: array for name, array in weights._asdict().items() if array is not None}
    metadata = {_MARK: _VERSION, "form": "gated" if weights.gated else "dense"}
    if activation is not None:
        metadata["activation"] = _text(activation)
    if network is not None and not network.plain:
        stages: dict[str, Any] = {
            "after_residual": network.after_residual,
            "residual": network.residual,
            "scale": network.scale,
        }
        for place in _STAGES:
            norm: Norm | None = getattr(network, place)
            if norm is not None:
                stages[place] = {"kind": norm.kind, "eps": norm.eps}
                tensors |= {
                    f"{place}.{name}": array
                    for name, array in (("gamma", norm.gamma), ("beta", norm.beta))
                    if array is not None
                }
        metadata["stages"] = json.dumps(stages)
    save_tensors(path, tensors, metadata)


def _text(activation: Any) -> str:
    """An activation as a file keeps it: its name, or its kind with its numbers."""
    if isinstance(activation, str):
        return str(fact(activation))
    name = getattr(activation, "name", None)
    if isinstance(name, str) and ACTIVATIONS.get(name) is activation:
        return name
    own = to_dict(activation)
    if own is not None:
        return json.dumps(own)
    raise TypeError(
        f"activation must be a name or an object of this library's to be kept in a file, got {kind_of(activation)}; "
        "pass activation= with the name that it comes nearest to, or keep the function in your code"
    )


def is_own(store: Store) -> bool:
    """Whether a file says that this library wrote it."""
    return _MARK in store.metadata and "W1" in store.tensors


def read_own(store: Store, given: Any) -> tuple[Recipe, ActivationChoice]:
    """What is read from such a file, and its activation.

    Raises `Undecided` where the file keeps no activation and none is given, CheckpointError where it is damaged.
    """
    if store.metadata[_MARK] != _VERSION:
        raise CheckpointError(f"{store.path}: was written by a later version of this library; update it")
    if "W2" not in store.tensors:
        raise CheckpointError(f"{store.path}: must hold W1 and W2; W2 is missing")
    parts = {name: Part(name) for name in Weights._fields if name in store.tensors}
    for name, part in parts.items():
        rank = len(store.tensors[part.key].shape)
        if rank != (2 if name in ("W1", "W2", "V") else 1):
            raise CheckpointError(f"{store.path}: {name} must have {2 if name in 'W1W2V' else 1} axes, has {rank}")
    stages = _stages(store)
    recipe = Recipe(
        W1=parts["W1"],
        b1=parts.get("b1"),
        W2=parts["W2"],
        b2=parts.get("b2"),
        V=parts.get("V"),
        c=parts.get("c"),
        before=_norm(store, "before", stages),
        middle=_norm(store, "middle", stages),
        after=_norm(store, "after", stages),
        after_residual=bool(stages.get("after_residual")),
        residual=bool(stages.get("residual")),
        scale=_number(store, stages.get("scale", 1.0)),
    )
    if given is not None:
        return recipe, ActivationChoice(fact(given), "activation: given")
    if "activation" not in store.metadata:
        raise Undecided(f"{store.path}: keeps no activation; pass activation=", "activation")
    return recipe, ActivationChoice(_parse(store, store.metadata["activation"]), "activation: in the file's metadata")


def _parse(store: Store, text: str) -> Any:
    """The activation that a file keeps."""
    if not text.startswith("{"):
        if text not in ACTIVATIONS:
            raise CheckpointError(f"{store.path}: keeps the activation {text[:100]!r}, which is none that is known")
        return text
    try:
        return from_dict(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{store.path}: keeps an activation that is damaged: {text[:100]!r}") from error


def _stages(store: Store) -> Mapping[str, Any]:
    """What stands round the matrices."""
    try:
        stages = json.loads(store.metadata.get("stages", "{}"))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{store.path}: the stages in its metadata are no JSON") from error
    if not isinstance(stages, dict):
        raise CheckpointError(f"{store.path}: the stages in its metadata must be an object")
    return stages


def _norm(store: Store, place: str, stages: Mapping[str, Any]) -> NormRecipe | None:
    """One normalisation that the file keeps."""
    said = stages.get(place)
    if said is None:
        return None
    if not isinstance(said, dict) or said.get("kind") not in NORMS:
        raise CheckpointError(f"{store.path}: the normalisation {place!r} in its metadata is of no known kind")
    gamma, beta = (name if name in store.tensors else None for name in (f"{place}.gamma", f"{place}.beta"))
    return NormRecipe(said["kind"], gamma, beta, _number(store, said.get("eps")))


def _number(store: Store, value: Any) -> float:
    """A finite number of the metadata."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf"):
        return float(value)
    raise CheckpointError(f"{store.path}: a number in its metadata is missing or no number, {value!r}")
