"""The network as a `flax.nnx.Module`."""

from functools import partial
from typing import Any

from portable_ffn._arrays.typing import Activation, DType
from portable_ffn._network.weights import Weights
from portable_ffn.adapters._module import LAYERS, check_settings, check_weights, forward, missing, shapes

try:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from flax import nnx
except ImportError as error:
    raise missing("Flax", "flax") from error


class FeedForward(nnx.Module):
    """act(x W1 + b1) W2 + b2, or, gated, (act(x W1 + b1) * (x V + c)) W2 + b2, with dropout on the hidden layer.

    Parameters
    ----------
    d_model : int
    d_ff : int, optional
        4 d_model where it is not given; for a gated network 8/3 d_model, rounded up to a multiple of 64.
    activation : str, gate object or callable
        A name of `portable_ffn.ACTIVATIONS`, a gate such as `ClippedGate`, or a callable on one array. An
        `nnx.Module` becomes a part of this one, its parameters too.
    gated : bool
        With the linear branch V, c.
    bias : bool
        With b1, b2 and, gated, c.
    dropout : float
        The share of the hidden layer to drop, 0 <= dropout < 1; on as `nnx.Dropout` is, off after `eval()`.
    dtype, param_dtype, rngs
        As of `nnx.Linear`: the dtype of the computation (by default what x and the parameters promote to), the dtype
        of the parameters, the source of random numbers.

    Attributes
    ----------
    W1, b1, W2, b2, V, c : nnx.Param, or None
        Shapes (d_model, d_ff), (d_ff,), (d_ff, d_model), (d_model,), (d_model, d_ff), (d_ff,). Initialised as
        `nnx.Linear` does: lecun_normal, and zeros for biases.

    Raises
    ------
    ValueError
        For an unknown activation, a gate without `gated`, a negative width, a dropout outside [0, 1).
    TypeError
        For a width that is no integer, an activation that can't be called.

    References
    ----------
    Vaswani et al. 2017, Attention Is All You Need, section 3.3; Shazeer 2020, GLU Variants Improve Transformer.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int | None = None,
        *,
        activation: Activation = "relu",
        gated: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        rngs: nnx.Rngs,
    ) -> None:
        rate = check_settings(activation, gated, dropout)
        wanted = shapes(d_model, d_ff, gated, bias)
        for weight, its_bias in LAYERS:
            W = getattr(wanted, weight)
            linear = None if W is None else nnx.Linear(*W, use_bias=bias, param_dtype=param_dtype, rngs=rngs)
            setattr(self, weight, _data(None if linear is None else linear.kernel))
            setattr(self, its_bias, _data(None if linear is None else linear.bias))
        self.activation = activation
        self.dropout = _data(nnx.Dropout(rate, rngs=rngs) if rate else None)
        self.dtype = dtype

    @classmethod
    def from_weights(
        cls,
        weights: Weights,
        *,
        activation: Activation = "relu",
        dropout: float = 0.0,
        dtype: Any = None,
        param_dtype: DType | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> "FeedForward":
        """A module with a copy of these weights, of any library; in their dtypes, or in `param_dtype`.

        `rngs` is for dropout alone. Raises ValueError where the shapes are not those of a network, TypeError where
        JAX as configured can't hold the dtype.
        """
        check_weights(weights)
        settings = {"activation": activation, "gated": weights.gated, "dropout": dropout, "dtype": dtype}
        module = cls(1, 1, **settings, rngs=rngs or nnx.Rngs(0))
        if rngs is None and module.dropout is not None:
            module.dropout = nnx.Dropout(module.dropout.rate)  # without random numbers of its own it asks for some
        moved = weights.to(like=jnp.zeros(0, dtype=bool), dtype=param_dtype)
        for name, array in zip(Weights._fields, moved, strict=True):
            setattr(module, name, _data(None if array is None else nnx.Param(jnp.array(array))))
        return module

    @property
    def weights(self) -> Weights:
        """The arrays of the parameters, as what `feed_forward` takes."""
        params = (getattr(self, name) for name in Weights._fields)
        return Weights(*(None if param is None else param[...] for param in params))

    def __call__(
        self,
        x: jax.Array | np.ndarray[Any, Any],
        *,
        deterministic: bool | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> jax.Array:
        """The network on x of shape (..., d_model); `deterministic` and `rngs` as of `nnx.Dropout`."""
        weights, drop = self.weights, None
        if self.dropout is not None and not (self.dropout.deterministic if deterministic is None else deterministic):
            drop = partial(self.dropout, deterministic=deterministic, rngs=rngs)
        x = jnp.asarray(x) if isinstance(x, np.ndarray) else x  # as in every module of Flax
        if self.dtype is not None:
            x, weights = x.astype(self.dtype), weights.to(dtype=self.dtype)
        y: jax.Array = forward(x, weights, self.activation, drop)
        return y


def _data(value: Any) -> Any:
    """A parameter, or the room for one; Flax before 0.12 makes no difference between data and settings."""
    return nnx.data(value) if hasattr(nnx, "data") else value
