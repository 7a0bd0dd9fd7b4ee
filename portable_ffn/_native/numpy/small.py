"""A small network of NumPy arrays: in one piece, without blocks; a call whose like was checked is not checked again.

On few numbers the checks cost as much as the products. What the contract asks depends on types, dtypes and shapes
alone, so a call of the same ones as an earlier call's needs no other look than the one that finds it.
"""

from typing import Any

from portable_ffn._arrays.typing import Array
from portable_ffn._native.numpy.tiles import STEPS, Combine
from portable_ffn._native.numpy.workspace import Work, silently

# A hidden layer of so many numbers is one tile.
SMALL = 8192
# (activation, then the type, dtype and shape of each array, None where None) of small calls that were checked.
_checked: dict[Any, Combine] = {}
MOST = 256


def small(
    x: Array,
    W1: Array,
    b1: Array | None,
    W2: Array,
    b2: Array | None,
    V: Array | None,
    c: Array | None,
    activation: Any,
) -> Array | None:
    """The network of few positions; None unless a call like it was checked before."""
    if type(activation) is not str:
        return None
    try:
        combine = _checked.get(_key(activation, x, W1, b1, W2, b2, V, c))
    except (AttributeError, TypeError):
        return None  # no array, or one whose shape can't be a key: the checks say so
    return None if combine is None else silently(network, x, W1, b1, W2, b2, V, c, combine, x.dtype)


def remember(name: str, arrays: tuple[Array, ...]) -> None:
    """A small call in one dtype, by an activation of STEPS, that was checked."""
    if len(_checked) >= MOST:
        _checked.clear()
    _checked[_key(name, *arrays)] = STEPS[name]


def _key(name: str, x: Array, W1: Array, b1: Array, W2: Array, b2: Array, V: Array, c: Array) -> Any:
    """All that the checks of a call depend on."""
    return (
        name, type(x), x.dtype, x.shape, type(W1), W1.dtype, W1.shape,
        b1 if b1 is None else (type(b1), b1.dtype, b1.shape),
        type(W2), W2.dtype, W2.shape,
        b2 if b2 is None else (type(b2), b2.dtype, b2.shape),
        V if V is None else (type(V), V.dtype, V.shape),
        c if c is None else (type(c), c.dtype, c.shape),
    )  # fmt: skip


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
