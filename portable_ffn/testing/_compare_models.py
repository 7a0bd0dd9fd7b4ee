"""Two models layer by layer: checkpoints, or a checkpoint and a function. One layer at a time is in memory."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from portable_ffn._arrays.dtype import dtype_name
from portable_ffn._arrays.number import whole
from portable_ffn._arrays.typing import DType
from portable_ffn.testing._backends.table import Function, backend
from portable_ffn.testing._inputs.layers import Given
from portable_ffn.testing._models.comparison import Comparison
from portable_ffn.testing._models.layer import Layer
from portable_ffn.testing._models.one_layer import OneLayer
from portable_ffn.testing._models.pairs import Pairs, numbered, pair

Model = str | os.PathLike[str] | Function


def compare_models(
    a: Model,
    b: Model,
    *,
    layer: int | None = None,
    dtype: DType | None = None,
    library: str = "numpy",
    inputs: Mapping[int, Given] | None = None,
    seed: int = 0,
    facts_a: Mapping[str, Any] | None = None,
    facts_b: Mapping[str, Any] | None = None,
    progress: Callable[[Layer, int, int], object] | None = None,
) -> Comparison:
    """Compare two checkpoints, or a checkpoint and a function, layer by layer on the same inputs.

    A is what is meant: the oracle computes its layers, and B's outputs are measured in units of the bound. Of two
    checkpoints both are computed exactly, so that what differs is what stands in the files; a function is called with
    A's weights and computes as it does.

    Parameters
    ----------
    a, b : path or callable
        A checkpoint, as `portable_ffn.checkpoint.find` takes it; or a function(x, W1, b1, W2, b2[, V, c]), one at most.
    layer : int, optional
        Compare the layer of this number alone.
    dtype : str or dtype, optional
        Whose rounding is the unit, and in which a function is called; the coarser of both files where not given.
    library : str
        The row of `portable_ffn.testing.BACKENDS` whose arrays a function is called with.
    inputs : dict, optional
        What enters each layer, by number. Random where not given, the same for the same `seed`.
    facts_a, facts_b : dict, optional
        The facts that a checkpoint leaves open: activation, gate, layout.
    progress : callable, optional
        Called with each layer when it is there, its number in the order, and how many there are.

    Returns
    -------
    Comparison

    Raises
    ------
    CheckpointError, FileNotFoundError
        Where a checkpoint can't be read.
    TypeError
        Where neither is a checkpoint.
    ValueError
        For an unknown library, or where no layer is left to compare.
    """
    from portable_ffn import checkpoint

    if callable(a):
        if callable(b):
            raise TypeError("one of A and B must be a checkpoint, whose weights both compute with; got two functions")
        a, b, facts_a = b, a, facts_b
    # A mixture is compared expert by expert.
    found = [network for entry in checkpoint.find(a, **(facts_a or {})) for network in entry.networks]
    if callable(b):
        pairs = Pairs(tuple((entry, b) for entry in numbered(found, layer)), (), ())
    else:
        others = [network for entry in checkpoint.find(b, **(facts_b or {})) for network in entry.networks]
        pairs = pair(found, others, layer)
    chosen = [two for two in pairs.both if inputs is None or two[0].layer in inputs]
    if not chosen and not (pairs.only_a or pairs.only_b):
        raise ValueError(_nothing(found, layer, inputs))
    one = OneLayer(inputs, whole("seed", seed, 0), backend(library), None if dtype is None else dtype_name(dtype))
    layers = []
    for number, (mine, other) in enumerate(chosen):
        layers.append(one.layer(mine, other))
        if progress is not None:
            progress(layers[-1], number, len(chosen))
    skipped = tuple(mine.layer for mine, _ in pairs.both if inputs is not None and mine.layer not in inputs)
    only_a, only_b = (tuple(entry.name or "its one layer" for entry in only) for only in (pairs.only_a, pairs.only_b))
    return Comparison(_title(a), _title(b), tuple(layers), only_a, only_b, skipped)


def _title(model: Model) -> str:
    """A model in a word."""
    if callable(model):
        return f"{getattr(model, '__module__', '')}:{getattr(model, '__qualname__', type(model).__name__)}"
    return os.fspath(model)


def _nothing(found: list[Any], layer: int | None, inputs: Mapping[int, Given] | None) -> str:
    """Why there is nothing to compare."""
    numbers = ", ".join(str(number) for number in sorted({entry.layer for entry in found})) or "none"
    if layer is not None and not any(entry.layer == layer for entry in found):
        return f"layer must be one of A's, {numbers}; got {layer}"
    if inputs is not None:
        return f"inputs must have one of A's layers, {numbers}; got {', '.join(map(str, sorted(inputs))) or 'none'}"
    return "A and B must hold feed-forward layers under names that are known; they hold none in common"
