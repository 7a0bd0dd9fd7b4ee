"""Linear things beside a matrix, folded into it in float64: BatchNorm in evaluation, scales, low-rank additions."""

from typing import NamedTuple

import numpy as np

from portable_ffn.checkpoint._loaded.recipe import (
    BATCH_NORM_LEAVES,
    BatchNorm,
    Divisor,
    Fold,
    LowRank,
    Readable,
    Recipe,
    Scale,
)

Array = np.ndarray


class Arrays(NamedTuple):
    """The six arrays of a network in NumPy."""

    W1: Array
    b1: Array | None
    W2: Array
    b2: Array | None
    V: Array | None
    c: Array | None


_BIASES = {"W1": "b1", "W2": "b2", "V": "c"}


def read_arrays(recipe: Recipe, store: Readable) -> Arrays:
    """The arrays as the file has them, each a view where it can be; where something folds, float64."""
    parts = (recipe.W1, recipe.b1, recipe.W2, recipe.b2, recipe.V, recipe.c)
    arrays = Arrays(*(None if part is None else part.read(store) for part in parts))  # type: ignore[arg-type]
    if not recipe.folds:
        return arrays
    # An inf or a NaN of the file is a value like any other.
    with np.errstate(all="ignore"):
        arrays = Arrays(*(None if a is None else a.astype(np.float64) for a in arrays))  # type: ignore[arg-type]
        for fold in recipe.folds:
            arrays = _folded(arrays, fold, recipe, store)
    return arrays


def _folded(arrays: Arrays, fold: Fold, recipe: Recipe, store: Readable) -> Arrays:
    """The arrays with one thing folded in."""
    if isinstance(fold, LowRank):
        return _low_rank(arrays, fold, recipe, store)
    if isinstance(fold, Divisor):
        return arrays._replace(W2=arrays.W2 / _wide(store, fold.key)[:, None])
    if isinstance(fold, Scale):
        number = _wide(store, fold.key) * fold.number if fold.key else np.asarray(fold.number)
        return _affine(arrays, fold.target, number, None)
    return _batch_norm(arrays, fold, store)


def _wide(store: Readable, key: str) -> Array:
    """A tensor in float64."""
    return store.read_logical(key).astype(np.float64)


def _affine(arrays: Arrays, target: str, scale: Array, shift: Array | None) -> Arrays:
    """The outputs of one matrix times `scale`, plus `shift`."""
    W, b = getattr(arrays, target), getattr(arrays, _BIASES[target])
    b = None if b is None else b * scale
    if shift is not None:
        b = shift if b is None else b + shift
    return arrays._replace(**{target: W * scale, _BIASES[target]: b})


def _batch_norm(arrays: Arrays, fold: BatchNorm, store: Readable) -> Arrays:
    """(x - mean) / sqrt(var + eps) * weight + bias, after a matrix or before it."""
    gamma, beta, mean, var = (_wide(store, f"{fold.stem}.{leaf}") for leaf in BATCH_NORM_LEAVES)
    scale = gamma / np.sqrt(var + fold.eps)
    shift = beta - mean * scale
    if fold.after:
        return _affine(arrays, fold.target, scale, shift)
    W, b = getattr(arrays, fold.target), getattr(arrays, _BIASES[fold.target])
    added = shift @ W
    return arrays._replace(**{fold.target: scale[:, None] * W, _BIASES[fold.target]: added if b is None else b + added})


def _low_rank(arrays: Arrays, fold: LowRank, recipe: Recipe, store: Readable) -> Arrays:
    """The product of both small matrices, (rank, in) and (out, rank), added to W1 and V."""
    added = fold.factor * (_wide(store, fold.up) @ _wide(store, fold.down)).T
    if arrays.V is None:
        return arrays._replace(W1=arrays.W1 + added)
    halves = {
        "first": slice(None, added.shape[1] // 2),
        "second": slice(added.shape[1] // 2, None),
        "even": slice(0, None, 2),
        "odd": slice(1, None, 2),
        None: slice(None),
    }
    V = recipe.V
    assert V is not None
    return arrays._replace(W1=arrays.W1 + added[:, halves[recipe.W1.half]], V=arrays.V + added[:, halves[V.half]])
