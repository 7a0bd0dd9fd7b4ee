"""The network in its place: with the residual connection and the normalisation round it."""

from collections.abc import Callable, Sequence
from typing import Literal

from portable_ffn._arrays.deferred import stands_for_an_array
from portable_ffn._arrays.errors import refusal
from portable_ffn._arrays.kind import not_an_array
from portable_ffn._arrays.library import library_of
from portable_ffn._arrays.promotion import add
from portable_ffn._arrays.shapes import shape_of
from portable_ffn._arrays.typing import Array, ArrayT, KnownActivation
from portable_ffn._network.feed_forward import feed_forward


def sublayer(
    x: ArrayT,
    weights: Sequence[Array | None],
    norm: Callable[[Array], Array],
    *,
    activation: KnownActivation = "relu",
    order: Literal["post", "pre"] = "post",
) -> ArrayT:
    """norm(x + f(x)) where order is "post", x + f(norm(x)) where it is "pre".

    Parameters
    ----------
    x : array, shape (..., d_model)
    weights : Weights
        Those of `feed_forward`; W2's width must be d_model.
    norm : callable
        From (..., d_model) to the same, such as `lambda x: layer_norm(x, gamma, beta)`.
    activation : str, gate object or callable
        As in `feed_forward`.
    order : {"post", "pre"}
        Where the normalisation stands.

    Returns
    -------
    array, shape (..., d_model)
        In the widest real floating dtype of x, the network's result and the normalisation's.

    Raises
    ------
    TypeError
        For a norm that can't be called, weights that are one array, and as `feed_forward` does.
    ValueError
        For a network whose output is not of x's width, a norm that changes the shape, an unknown order, and as
        `feed_forward` does.

    References
    ----------
    Vaswani et al. 2017, section 3.1, LayerNorm(x + Sublayer(x)); Xiong et al. 2020 for the order "pre".
    """
    if order not in ("post", "pre"):
        raise refusal(ValueError, "order", f'must be "post" or "pre", got {order!r}')
    if not callable(norm):
        raise refusal(
            TypeError, "norm", f"must be a callable on one array, got {type(norm).__name__}", "pass a function of x"
        )
    if hasattr(weights, "shape"):
        statement = "must be Weights, or a sequence of W1, b1, W2, b2 and, gated, V, c; got one array"
        raise refusal(TypeError, "weights", statement)
    W1: Array = weights[0]
    W2: Array = weights[2]
    if (
        not stands_for_an_array(W1)
        and getattr(W1, "ndim", 0) == 2
        and getattr(W2, "ndim", 0) == 2
        and W2.shape[1] != W1.shape[0]
    ):
        statement = f"must have d_model = {W1.shape[0]} columns for a residual connection, got {W2.shape[1]}"
        raise refusal(ValueError, "W2", statement, "call feed_forward for a projection")
    if order == "pre":
        return _sum(x, feed_forward(_normed(norm, x), *weights, activation=activation))
    return _normed(norm, _sum(x, feed_forward(x, *weights, activation=activation)))


def _normed(norm: Callable[[Array], Array], x: Array) -> Array:
    """norm(x), which has the shape of x."""
    y = norm(x)
    if stands_for_an_array(y):
        return y
    if library_of(y) is None:
        raise not_an_array("what norm returns", y)
    before, after = shape_of(x), shape_of(y)
    # None is a length that a lazy array doesn't know yet.
    known = [n if None in (n, m) else m for n, m in zip(before, after, strict=False)]
    if len(before) != len(after) or known != list(before):
        raise refusal(ValueError, "norm", f"must return the shape of its argument, {before}, got {after}")
    return y


def _sum(x: Array, y: Array) -> Array:
    """x + y by the dtype rule of the network."""
    return x + y if stands_for_an_array(x) else add(x, y)
