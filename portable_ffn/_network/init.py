"""New weights, the same numbers on every library."""

import math
from typing import Any

from portable_ffn._arrays.dtype import REAL_FLOATING, dtype_name, is_real_floating
from portable_ffn._arrays.errors import refusal
from portable_ffn._arrays.library import library
from portable_ffn._arrays.number import whole
from portable_ffn._arrays.typing import Array, DType
from portable_ffn._network.weights import Weights


def init_weights(
    d_model: int,
    d_ff: int | None = None,
    *,
    gated: bool = False,
    bias: bool = True,
    like: Array | None = None,
    dtype: DType | None = None,
    seed: int = 0,
) -> Weights:
    """New weights, uniform in (-1/sqrt(fan_in), 1/sqrt(fan_in)), drawn by NumPy's PCG64 in float64.

    Parameters
    ----------
    d_model : int
    d_ff : int, optional
        4 d_model where it is not given (Vaswani et al. 2017), and for a gated network 8/3 d_model rounded up to a
        multiple of 64 (Touvron et al. 2023), which has about as many parameters.
    gated : bool
        With the linear branch V, c.
    bias : bool
        With b1, b2 and, gated, c.
    like : array, optional
        Its library and device are taken, and its dtype if that is real floating.
    dtype : str or dtype, optional
        Wins over that of `like`; float64 where neither says.
    seed : int
        Equal seeds give equal numbers on every library, up to the rounding of its dtype.

    Returns
    -------
    Weights

    Raises
    ------
    ValueError
        For a negative width or seed.
    TypeError
        For a width or seed that is no integer, a dtype that is not real floating or that the library cannot hold, a
        `like` that is no array.
    """
    d_model, d_ff = widths(d_model, d_ff, gated)
    seed = whole("seed", seed, 0)
    if dtype is not None and not is_real_floating(dtype):
        raise refusal(TypeError, "dtype", f"must be one of {', '.join(REAL_FLOATING)}, got {dtype_name(dtype)}")
    if like is not None and dtype is None:
        one = library(like, "like")
        dtype = None if is_real_floating(like.dtype) else one.default_float(like)
    import numpy as np  # the package itself loads no array library

    random = np.random.Generator(np.random.PCG64(seed))

    def uniform(fan_in: int, *shape: int) -> Any:
        bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
        return random.uniform(-bound, bound, shape)

    weights = Weights(
        W1=uniform(d_model, d_model, d_ff),
        b1=uniform(d_model, d_ff) if bias else None,
        W2=uniform(d_ff, d_ff, d_model),
        b2=uniform(d_ff, d_model) if bias else None,
        V=uniform(d_model, d_model, d_ff) if gated else None,
        c=uniform(d_model, d_ff) if gated and bias else None,
    )
    return weights.to(like=like, dtype=dtype)


def widths(d_model: int, d_ff: int | None, gated: bool) -> tuple[int, int]:
    """Both widths as ints, d_ff by its rule where it is not given."""
    d_model = whole("d_model", d_model, 0)
    if d_ff is None:
        return d_model, 64 * -(-8 * d_model // (3 * 64)) if gated else 4 * d_model
    return d_model, whole("d_ff", d_ff, 0)
