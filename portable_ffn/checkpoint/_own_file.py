"""The file of one network that this library writes itself: arrays W1 ... c, the rest of it in the metadata."""

import json
import os
from typing import Any, Final

from portable_ffn import ACTIVATIONS, Weights
from portable_ffn._activations.serial import to_dict
from portable_ffn._arrays.kind import kind_of
from portable_ffn._arrays.library import library_of
from portable_ffn._arrays.shapes import check_weights
from portable_ffn.checkpoint._config.spellings import LEARNED, fact
from portable_ffn.checkpoint._errors import CheckpointError, Undecided
from portable_ffn.checkpoint._facts.activation import ActivationChoice
from portable_ffn.checkpoint._facts.fits import check_activation, check_fits
from portable_ffn.checkpoint._facts.own import PLACES, own_activation, own_stages
from portable_ffn.checkpoint._files.save import save_tensors
from portable_ffn.checkpoint._loaded.network import Network, Norm
from portable_ffn.checkpoint._loaded.recipe import Part, Recipe
from portable_ffn.checkpoint._tensors.store import Store

_MARK: Final = "portable_ffn"
_VERSION: Final = "1"


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
        For a name of no activation, a path of another ending, or shapes that contradict each other.
    """
    network = obj if isinstance(obj, Network) else None
    if network is None and not isinstance(obj, Weights):
        raise TypeError(f"obj must be Weights or a loaded network, got {kind_of(obj)}")
    weights = obj if network is None else network.weights
    _check_shapes(weights)
    if activation is None and network is not None:
        activation = network.activation
    tensors = {name: array for name, array in weights._asdict().items() if array is not None}
    metadata = {_MARK: _VERSION, "form": "gated" if weights.gated else "dense"}
    if activation is not None:
        metadata["activation"] = _text(activation)
        check_activation(activation, int(weights.W1.shape[1]), weights.gated, ValueError)
    if network is not None and not network.plain:
        stages: dict[str, Any] = {
            "after_residual": network.after_residual,
            "residual": network.residual,
            "scale": network.scale,
        }
        for place in PLACES:
            norm: Norm | None = getattr(network, place)
            if norm is not None:
                _check_norm(place, norm, weights)
                stages[place] = {"kind": norm.kind, "eps": norm.eps}
                tensors |= {
                    f"{place}.{name}": array
                    for name, array in (("gamma", norm.gamma), ("beta", norm.beta))
                    if array is not None
                }
        metadata["stages"] = json.dumps(stages)
    save_tensors(path, tensors, metadata)


def _check_shapes(weights: Weights) -> None:
    """ValueError where the arrays are not those of a network; what is no array is refused where it is written."""
    if all(library_of(array) is not None for array in weights if array is not None):
        check_weights(*weights)


def _check_norm(place: str, norm: Norm, weights: Weights) -> None:
    """ValueError where a norm's arrays have another length than what they are for."""
    width = {"before": weights.W1.shape[0], "middle": weights.W1.shape[1], "after": weights.W2.shape[1]}[place]
    for name in ("gamma", "beta"):
        array = getattr(norm, name)
        if array is not None and tuple(array.shape) != (width,):
            raise ValueError(f"{place}.{name} must have shape ({width},), got {tuple(array.shape)}")


def _text(activation: Any) -> str:
    """An activation as a file keeps it: its name, or its kind with its numbers."""
    if isinstance(activation, str):
        word = str(fact(activation))
        if word in LEARNED:
            raise TypeError(f"activation must be an object with the numbers of {word} to be kept in a file, got a name")
        return word
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


def read_own(store: Store, given: Any) -> tuple[Recipe, ActivationChoice, int, int]:
    """What is read from such a file, its activation, d_model and d_ff.

    Raises `Undecided` where the file keeps no activation and none is given, CheckpointError where it is damaged.
    """
    if store.metadata[_MARK] != _VERSION:
        raise CheckpointError(f"{store.path}: was written by a later version of this library; update it")
    if "W2" not in store.tensors:
        raise CheckpointError(f"{store.path}: must hold W1 and W2; W2 is missing")
    parts = {name: Part(name) for name in Weights._fields if name in store.tensors}
    shapes = {name: store.tensors[name].shape for name in parts}
    for name, shape in shapes.items():
        axes = 2 if name in ("W1", "W2", "V") else 1
        if len(shape) != axes:
            raise CheckpointError(f"{store.path}: {name} must have {axes} axes, has {len(shape)}")
    form = store.metadata.get("form", "gated" if "V" in parts else "dense")
    if form != ("gated" if "V" in parts else "dense") or ("c" in parts and "V" not in parts):
        raise CheckpointError(f"{store.path}: is {form!r} by its metadata, and holds {', '.join(parts)}")
    recipe = Recipe(
        W1=parts["W1"],
        b1=parts.get("b1"),
        W2=parts["W2"],
        b2=parts.get("b2"),
        V=parts.get("V"),
        c=parts.get("c"),
        **own_stages(store),
    )
    (d_model, d_ff), d_out = shapes["W1"], shapes["W2"][1]
    check_fits(recipe, store.tensors, d_model, d_ff, d_out)
    return recipe, _activation(store, given, d_ff, gated="V" in parts), d_model, d_ff


def _activation(store: Store, given: Any, d_ff: int, *, gated: bool) -> ActivationChoice:
    """The activation that is given, or that the file keeps."""
    if given is not None:
        chosen = ActivationChoice(fact(given), "activation: given")
    elif "activation" in store.metadata:
        chosen = ActivationChoice(own_activation(store), "activation: in the file's metadata")
    else:
        raise Undecided(f"{store.path}: keeps no activation; pass activation=", "activation")
    if chosen.learned:
        raise CheckpointError(
            f"{store.path}: holds no weights of {chosen.activation}; pass the object with its numbers, such as PReLU"
        )
    check_activation(chosen.activation, d_ff, gated)
    return chosen
