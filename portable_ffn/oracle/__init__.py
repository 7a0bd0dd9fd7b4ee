"""The feed-forward network in float64, and how far a sound implementation may be from it.

The oracle shares nothing with the implementation: it is NumPy products and scalar formulas of `math`, checked against
mpmath. Each function returns the answer and a bound: |x||W1| + |b1| carried through the activation's slope into
|.||W2| + |b2|, times the unit roundoff of the dtype and the growth of each dot product. The bound is never NaN. It is
inf where a finite input overflows the dtype on the way, and anything is accepted there; elsewhere NaN or inf is right
exactly where the answer has it.
"""

import math
from typing import Any

import numpy as np

from portable_ffn.oracle._bound import LAMBDA, affine
from portable_ffn.oracle._experts import feed_forward_experts
from portable_ffn.oracle._formulas import ACTIVATIONS, DERIVATIVES
from portable_ffn.oracle._gate import layer
from portable_ffn.oracle._gradient import gradients, narrowed
from portable_ffn.oracle._numbers import Array, unit_roundoff
from portable_ffn.oracle._operands import operands
from portable_ffn.oracle._routes import route

__all__ = [
    "ACTIVATIONS",
    "DERIVATIVES",
    "LAMBDA",
    "feed_forward",
    "feed_forward_experts",
    "hidden",
    "route",
    "unit_roundoff",
    "vjp",
]


def hidden(
    x: Any,
    W1: Any,
    b1: Any = None,
    V: Any = None,
    c: Any = None,
    *,
    activation: Any = "relu",
    dtype: Any = None,
) -> tuple[Array, Array]:
    """The activated hidden layer act(x W1 + b1), or act(x W1 + b1) * (x V + c), with its error bound.

    Parameters
    ----------
    x : array_like, shape (..., d_model)
        Whatever `numpy.asarray` takes, bfloat16 of ml_dtypes included.
    W1, V : array_like, shape (d_model, d_ff)
        V None for a plain network.
    b1, c : array_like, shape (d_ff,), or None
    activation : str, gate object or callable
        A name of `ACTIVATIONS`; an object with limit, alpha, offset and clip; one with a method gate(g, u); or a
        function of one array. The last two are called on float64 NumPy arrays.
    dtype : str or dtype, optional
        The dtype whose rounding is bounded; by default that to which the inputs promote.

    Returns
    -------
    h, bound : ndarray of float64, shape (..., d_ff)

    Raises
    ------
    TypeError
        For something that is not an array of real numbers, or an unknown dtype.
    ValueError
        For a wrong shape, or an unknown activation.

    References
    ----------
    .. [1] Geva et al. 2021, "Transformer Feed-Forward Layers Are Key-Value Memories", equation 2.
    .. [2] Shazeer 2020, "GLU Variants Improve Transformer", equations 5 and 6.
    """
    given, _, precision = operands(dtype, x=x, W1=W1, b1=b1, V=V, c=c)
    with np.errstate(all="ignore"):
        h = layer(given, activation, precision)
        return h.value, h.bound()


def feed_forward(
    x: Any,
    W1: Any,
    b1: Any,
    W2: Any,
    b2: Any,
    V: Any = None,
    c: Any = None,
    *,
    activation: Any = "relu",
    dtype: Any = None,
) -> tuple[Array, Array]:
    """The network max(0, x W1 + b1) W2 + b2 (or another activation, or gated) with its error bound.

    Parameters
    ----------
    x, W1, b1, V, c, activation, dtype
        As for `hidden`.
    W2 : array_like, shape (d_ff, d_out)
    b2 : array_like, shape (d_out,), or None

    Returns
    -------
    y, bound : ndarray of float64, shape (..., d_out)

    Raises
    ------
    TypeError, ValueError
        As for `hidden`.

    References
    ----------
    .. [1] Vaswani et al. 2017, "Attention Is All You Need", equation 2.
    .. [2] Higham and Mary 2019, "A New Approach to Probabilistic Rounding Error Analysis", section 3.

    Examples
    --------
    >>> y, bound = feed_forward([[1.0, -2.0]], [[1.0], [1.0]], None, [[3.0, 4.0]], [0.5, 0.25])
    >>> y
    array([[0.5 , 0.25]])
    """
    given, _, precision = operands(dtype, x=x, W1=W1, b1=b1, V=V, c=c, W2=W2, b2=b2)
    with np.errstate(all="ignore"):
        y = affine(layer(given, activation, precision), given["W2"], given.get("b2"), precision)
        return y.value, y.bound()


Parts = tuple[Array | None, ...]


def vjp(
    x: Any,
    W1: Any,
    b1: Any,
    W2: Any,
    b2: Any,
    V: Any = None,
    c: Any = None,
    dy: Any = None,
    *,
    activation: Any = "relu",
    dtype: Any = None,
) -> tuple[Parts, Parts]:
    """The gradient of sum(y * dy) by each argument, with its error bounds.

    Parameters
    ----------
    x, W1, b1, W2, b2, V, c, dtype
        As for `feed_forward`.
    dy : array_like, shape (..., d_out)
        The gradient that comes from above, of y's shape.
    activation : str, gate object or callable
        A callable needs an attribute `derivative`, a gate object other than a clipped one a method gate_vjp(g, u, d)
        that returns the gradients of both branches; both are called on float64 NumPy.

    Returns
    -------
    gradients, bounds : tuple of seven
        (dx, dW1, db1, dW2, db2, dV, dc) in float64, None where the argument is None; the bounds likewise. At a kink of
        the activation, within the error of its argument, either slope is within the bound. A gradient whose argument
        has a narrower dtype than the result carries that rounding as well.

    Raises
    ------
    TypeError
        Also for a callable without a derivative.
    ValueError
        As for `feed_forward`.
    """
    given, own, precision = operands(dtype, x=x, W1=W1, b1=b1, V=V, c=c, W2=W2, b2=b2, dy=dy)
    shape = given["x"].value.shape
    tokens = math.prod(shape[:-1])  # -1 would be ambiguous beside an axis of length 0
    flat = {**given, **{key: given[key].reshape(tokens, given[key].value.shape[-1]) for key in ("x", "dy")}}
    with np.errstate(all="ignore"):
        found = {key: narrowed(d, own[key], precision) for key, d in gradients(flat, activation, precision).items()}
    found["x"] = found["x"].reshape(*shape)
    order = [found.get(key) for key in ("x", "W1", "b1", "W2", "b2", "V", "c")]
    return tuple(d and d.value for d in order), tuple(d and d.bound() for d in order)


def __dir__() -> list[str]:
    return __all__
