"""Normalisation over the last axis, computed in float32 at least."""

import math
from collections.abc import Callable

from portable_ffn._arrays.arguments import Call, checked
from portable_ffn._arrays.deferred import deferred, stands_for_an_array
from portable_ffn._arrays.dtype import LOW_PRECISION
from portable_ffn._arrays.explain import explaining
from portable_ffn._arrays.number import as_float
from portable_ffn._arrays.promotion import astype, cast
from portable_ffn._arrays.shapes import LAYER_NORM, RMS_NORM
from portable_ffn._arrays.typing import Array, ArrayT, Namespace


def layer_norm(x: ArrayT, gamma: Array | None, beta: Array | None = None, *, eps: float = 1e-5) -> ArrayT:
    """gamma (x - mean) / sqrt(variance + eps) + beta over the last axis.

    Parameters
    ----------
    x : array, shape (..., d_model)
    gamma : array, shape (d_model,), or None for ones
    beta : array, shape (d_model,), or None for zeros
    eps : float
        Added to the variance (the mean of squares about the mean), in units of x squared.

    Returns
    -------
    array, shape (..., d_model)
        In the widest real floating dtype of the arguments; half precision is computed in float32 and rounded once.

    Raises
    ------
    TypeError, ValueError
        As `feed_forward` does; ValueError for an eps that is negative or not finite.

    References
    ----------
    Ba, Kiros and Hinton 2016, Layer Normalization, equation 3.
    """

    def normalised(x: Array, gamma: Array | None, beta: Array | None, xp: Namespace) -> Array:
        centred = x - xp.mean(x, axis=-1, keepdims=True)
        scaled = centred / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + eps)
        scaled = scaled if gamma is None else xp.multiply(scaled, gamma)
        return scaled if beta is None else xp.add(scaled, beta)

    eps = as_float("eps", eps, at_least=0.0)
    if stands_for_an_array(x):
        return deferred(layer_norm, x, gamma, beta, eps=eps)
    return _norm(normalised, LAYER_NORM, (x, gamma, beta))


def rms_norm(x: ArrayT, gamma: Array | None, *, eps: float = 1e-6, offset: float = 0.0) -> ArrayT:
    """(offset + gamma) x / sqrt(mean(x**2) + eps) over the last axis.

    Parameters
    ----------
    x : array, shape (..., d_model)
    gamma : array, shape (d_model,), or None for ones (without the offset)
    eps : float
        Added to the mean square, in units of x squared.
    offset : float
        1.0 for the models that store gamma - 1 (Gemma); it is added in float32 at least.

    Returns
    -------
    array, shape (..., d_model)
        In the widest real floating dtype of the arguments; half precision is computed in float32 and rounded once.

    Raises
    ------
    TypeError, ValueError
        As `feed_forward` does; ValueError for an eps that is negative or not finite, or such an offset.

    References
    ----------
    Zhang and Sennrich 2019, Root Mean Square Layer Normalization, equation 4.
    """

    def normalised(x: Array, gamma: Array | None, xp: Namespace) -> Array:
        scaled = x / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + eps)
        return scaled if gamma is None else xp.multiply(scaled, gamma + offset)

    eps, offset = as_float("eps", eps, at_least=0.0), as_float("offset", offset, at_least=-math.inf)
    if stands_for_an_array(x):
        return deferred(rms_norm, x, gamma, eps=eps, offset=offset)
    return _norm(normalised, RMS_NORM, (x, gamma))


def _norm(normalised: Callable[..., Array], names: tuple[str, ...], arrays: tuple[Array | None, ...]) -> Array:
    """The checks and the dtype rule of the network round one formula."""
    return explaining(names, arrays, _computed, normalised, checked(names, arrays))


def _computed(normalised: Callable[..., Array], call: Call) -> Array:
    """One formula, in float32 at least."""
    one, arrays, _, name, dtype = call
    x: Array = arrays[0]
    if x.shape[-1] == 0:
        return astype(x, dtype, one.xp)  # no number to change, and NumPy warns of the mean of none
    computing = one.dtype("float32") if name in LOW_PRECISION else dtype
    with one.inside():
        return astype(normalised(*cast(arrays, computing, one.xp), one.xp), dtype, one.xp)
