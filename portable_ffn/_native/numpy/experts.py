"""NumPy's row of the mixture: the tokens of one expert after the other, through the blocks of the dense network."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from portable_ffn._arrays.arguments import Call
from portable_ffn._arrays.typing import Array
from portable_ffn._native.numpy.network import network


def experts(call: Any, block: Any) -> Array | None:
    """The mixture of plain arrays; None for others, and where an array is empty."""
    for array in call.arrays():
        if array is not None and (type(array) not in (np.ndarray, np.memmap) or not array.size):
            return None
    with call.library.inside():
        return block(call, mix)


def mix(given: Any) -> Array:
    """The experts' sum, each on its own tokens."""
    k, width = given.indices.shape[-1], given.x.shape[-1]
    x = given.x.reshape(-1, width)
    weights = given.weights.reshape(-1)
    y = np.zeros((len(x), given.experts.W2.shape[2]), given.wide)
    for e, rows in by_expert(given.indices.reshape(-1)):
        tokens, weight = rows // k, weights[rows, None]
        inside = x[tokens].astype(given.wide, copy=False)
        if given.on_input:
            inside *= weight
        out = _network(inside, tuple(None if a is None else a[e] for a in given.experts), given)
        if not given.on_input:
            np.multiply(out, weight, out=out)
        # No token has the same expert twice.
        y[tokens] += out
    return y.reshape(*given.x.shape[:-1], y.shape[1])


def by_expert(indices: Array) -> Iterator[tuple[int, Array]]:
    """Each expert that was chosen, with the places of the choices."""
    order = np.argsort(indices, kind="stable")
    found, starts = np.unique(indices[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    for e, start, end in zip(found.tolist(), starts.tolist(), ends, strict=True):
        yield e, order[start:end]


def _network(x: Array, weights: tuple[Array | None, ...], given: Any) -> Array:
    """One expert on some tokens, by the dense network's row or, for a user's own activation, by its formula."""
    wide = np.dtype(given.wide)
    y = network(Call(given.library, (x, *weights), given.act, wide.name, wide))
    if y is not None:
        return y
    W1, b1, W2, b2, V, c = (None if W is None else W.astype(given.wide, copy=False) for W in weights)

    def affine(x: Array, W: Array, b: Array | None) -> Array:
        return x @ W if b is None else x @ W + b

    hidden = given.act.combine(affine(x, W1, b1), None if V is None else affine(x, V, c), given.library.xp)
    return affine(hidden, W2, b2)
