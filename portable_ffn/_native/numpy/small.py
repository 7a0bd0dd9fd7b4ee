"""A small network of NumPy arrays: in one piece, without blocks, and as one call with every check of the contract.

On few numbers the looking costs more than the products, so each thing is looked at once, cheapest first. Whatever is
out of the ordinary is left to the long way, which knows what to say or do.
"""

from typing import Any

import numpy as np

from portable_ffn._arrays.shapes import check_shapes
from portable_ffn._arrays.typing import Array
from portable_ffn._native.numpy.quiet import silently
from portable_ffn._native.numpy.tiles import STEPS, Combine
from portable_ffn._native.numpy.workspace import Work

# A hidden layer of so many numbers is one tile.
SMALL = 8192
_ndarray = np.ndarray
_DTYPES = (np.dtype("float32"), np.dtype("float64"))


def whole(
    x: Array,
    W1: Array,
    b1: Array | None,
    W2: Array,
    b2: Array | None,
    V: Array | None,
    c: Array | None,
    activation: Any,
) -> Array | None:
    """The network of few positions in float32 or float64; None for all that the long way is for.

    Raises ValueError where shapes don't fit.
    """
    dtype, combine = x.dtype, STEPS.get(activation) if type(activation) is str else None
    if combine is None or dtype not in _DTYPES or W1 is None or W2 is None:
        return None
    for array in (W1, b1, W2, b2, V, c):
        # Another byte order is another object.
        if array is not None and not (type(array) is _ndarray and array.dtype is dtype):
            return None
    check_shapes(x, W1, b1, W2, b2, V, c)
    if not is_small(x, W1, W2):
        return None
    return silently(network, x, W1, b1, W2, b2, V, c, combine, dtype)


def is_small(x: Array, W1: Array, W2: Array) -> bool:
    """Whether a hidden layer has a number at all, and is a single row or a tile."""
    numbers, d_model = x.size, len(W1)
    return bool(numbers and W2.size and (numbers == d_model or numbers * len(W2) <= SMALL * d_model))


def network(
    x: Array,
    W1: Array,
    b1: Array | None,
    W2: Array,
    b2: Array | None,
    V: Array | None,
    c: Array | None,
    combine: Combine,
    dtype: Any,
) -> Array:
    """The network of arrays in one dtype, the hidden layer in one piece."""
    shape, one_row = x.shape, x.size == len(W1)
    # A vector goes without the iterator that broadcasts a bias over rows.
    flat = x.reshape(-1) if one_row else x if len(shape) == 2 else x.reshape(-1, shape[-1])
    g = _affine(flat, W1, b1)
    u = None if V is None else _affine(flat, V, c).reshape(-1)
    combine(g if one_row else g.reshape(-1), u, Work(dtype))
    y = _affine(g, W2, b2)
    if y.ndim == len(shape):
        return y
    return y[None] if len(shape) == 2 else y.reshape(shape[:-1] + y.shape[-1:])


def _affine(x: Array, W: Array, b: Array | None) -> Array:
    """x W + b of a matrix or vector; the method costs half of np.dot or matmul."""
    y = x.dot(W)
    if b is not None:
        y += b
    return y
