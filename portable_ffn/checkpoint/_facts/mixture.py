"""From a block's recipe and its networks to the mixture that the user holds."""

from dataclasses import replace
from typing import Any

import numpy as np

from portable_ffn import Weights
from portable_ffn.checkpoint._facts.block import BlockRecipe
from portable_ffn.checkpoint._loaded.mixture import Experts, Linear
from portable_ffn.checkpoint._loaded.network import Network, Norm
from portable_ffn.checkpoint._loaded.recipe import NormRecipe
from portable_ffn.checkpoint._tensors.store import Store
from portable_ffn.experts import Router


def read_block(recipe: BlockRecipe, store: Store, networks: tuple[Network, ...], shared: Network | None) -> Experts:
    """The mixture in NumPy: the router's matrix as (d_model, E), the experts stacked where they are plain."""
    W = store.read_logical(recipe.W).T
    if recipe.logits != 1.0:
        W = W.astype(np.float64) * recipe.logits
    inward = outward = None
    if recipe.inward is not None and recipe.outward is not None:
        inward = Linear(*_linear(store, recipe.inward[0], recipe.inward[1]), norm(store, recipe.inward[2]))
        outward = Linear(*_linear(store, *recipe.outward))
    gate = _array(store, recipe.shared_gate)
    routing = recipe.routing
    if recipe.factor is not None:
        routing = replace(routing, scale=routing.scale * float(np.reshape(store.read_logical(recipe.factor), -1)[0]))
    stacked = _stacked(networks)
    if stacked is not None:
        # One copy of each array: an expert is a view of the stack.
        own = [Weights(*(None if a is None else a[e] for a in stacked)) for e in range(len(networks))]
        networks = tuple(_with(network, weights) for network, weights in zip(networks, own, strict=True))
    return Experts(
        Router(W, _vector(store, recipe.b), _vector(store, recipe.selection_bias)),
        routing,
        networks,
        stacked,
        shared,
        None if gate is None else np.reshape(gate, (-1, 1)),
        recipe.rule,
        recipe.jitter,
        recipe.identities,
        inward,
        outward,
        _vector(store, recipe.bias),
        norm(store, recipe.after),
        recipe.scale,
    )


def _stacked(networks: tuple[Network, ...]) -> Weights | None:
    """The arrays of all experts with a leading axis; None where they are more than weights, or not alike."""
    first = networks[0]
    alike = all(
        net.plain
        and net.activation == first.activation
        and [_shape(a) for a in net.weights] == [_shape(a) for a in first.weights]
        for net in networks
    )
    if not alike:
        return None
    columns = zip(*(net.weights for net in networks), strict=True)
    return Weights(*(None if arrays[0] is None else np.stack(arrays) for arrays in columns))


def _with(network: Network, weights: Weights) -> Network:
    """The network with other weights."""
    return replace(network, weights=weights)


def _shape(array: Any) -> Any:
    """A shape and dtype, None where there is no array."""
    return None if array is None else (array.shape, array.dtype)


def _linear(store: Store, key: str, bias: str | None) -> tuple[Any, Any]:
    """A matrix as (in, out), and its bias."""
    return store.read_logical(key).T, _vector(store, bias)


def _array(store: Store, key: str | None) -> Any:
    """A tensor, or None."""
    return None if key is None else store.read_logical(key)


def _vector(store: Store, key: str | None) -> Any:
    """A vector, which some files hold as a matrix of one row."""
    return None if key is None else np.reshape(store.read_logical(key), -1)


def norm(store: Store, recipe: NormRecipe | None) -> Norm | None:
    """A normalisation with its tensors."""
    if recipe is None:
        return None
    return Norm(recipe.kind, _array(store, recipe.gamma), _array(store, recipe.beta), recipe.eps)
