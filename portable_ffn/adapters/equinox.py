"""The network as an `equinox.Module`."""

from functools import partial
from typing import Any

from portable_ffn._arrays.typing import Activation, DType
from portable_ffn._network.weights import Weights
from portable_ffn.adapters._module import LAYERS, check_settings, check_weights, forward, missing, shapes

try:
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import numpy as np
except ImportError as error:
    raise missing("Equinox", "equinox") from error

from portable_ffn.adapters._equinox_experts import Experts as Experts


class FeedForward(eqx.Module):
    """act(x W1 + b1) W2 + b2, or, gated, (act(x W1 + b1) * (x V + c)) W2 + b2, with dropout on the hidden layer.

    Parameters
    ----------
    d_model : int
    d_ff : int, optional
        4 d_model where it is not given; for a gated network 8/3 d_model, rounded up to a multiple of 64.
    activation : str, gate object or callable
        A name of `portable_ffn.ACTIVATIONS`, a gate such as `ClippedGate`, or a callable on one array. An
        `eqx.Module` becomes a part of this one, its parameters too.
    gated : bool
        With the linear branch V, c.
    bias : bool
        With b1, b2 and, gated, c.
    dropout : float
        The share of the hidden layer to drop, 0 <= dropout < 1. As `eqx.nn.Dropout` it asks for a key at the call,
        unless `eqx.nn.inference_mode` or `inference=True` says that it is off.
    dtype, key
        As of `eqx.nn.Linear`.

    Attributes
    ----------
    W1, b1, W2, b2, V, c : array, or None
        Shapes (d_model, d_ff), (d_ff,), (d_ff, d_model), (d_model,), (d_model, d_ff), (d_ff,). Initialised as
        `eqx.nn.Linear` does: uniform in (-1/sqrt(fan_in), 1/sqrt(fan_in)).

    Raises
    ------
    ValueError
        For an unknown activation, a gate without `gated`, a negative width, a dropout outside [0, 1).
    TypeError
        For a width that is no integer, an activation that can't be called.

    Notes
    -----
    x has any number of leading axes, none included, and its last axis is that of the features: there is no need of
    `vmap`, and a square x is never taken for columns.

    References
    ----------
    Vaswani et al. 2017, Attention Is All You Need, section 3.3; Shazeer 2020, GLU Variants Improve Transformer.
    """

    W1: jax.Array
    b1: jax.Array | None
    W2: jax.Array
    b2: jax.Array | None
    V: jax.Array | None
    c: jax.Array | None
    activation: Activation
    dropout: eqx.nn.Dropout

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
        key: jax.Array,
    ) -> None:
        self.dropout = eqx.nn.Dropout(check_settings(activation, gated, dropout))
        self.activation = activation
        wanted = shapes(d_model, d_ff, gated, bias)
        for (weight, its_bias), one_key in zip(LAYERS, jax.random.split(key, len(LAYERS)), strict=True):
            shape = getattr(wanted, weight)
            linear = None
            if shape is not None:
                fan_in, fan_out = shape
                linear = eqx.nn.Linear(fan_in, fan_out, bias, dtype, key=one_key)
            setattr(self, weight, None if linear is None else linear.weight.T)
            setattr(self, its_bias, None if linear is None else linear.bias)

    @classmethod
    def from_weights(
        cls,
        weights: Weights,
        *,
        activation: Activation = "relu",
        dropout: float = 0.0,
        dtype: DType | None = None,
    ) -> "FeedForward":
        """A module with a copy of these weights, of any library; in their dtypes, or in `dtype`.

        Raises ValueError where the shapes are not those of a network, TypeError where JAX as configured can't hold
        the dtype.
        """
        check_weights(weights)
        key = jax.random.key(0)
        module = cls(1, 1, activation=activation, gated=weights.gated, dropout=dropout, key=key)
        moved = weights.to(like=jnp.zeros(0, dtype=bool), dtype=dtype)
        copies = Weights(*(None if array is None else jnp.array(array) for array in moved))
        replaced: FeedForward = eqx.tree_at(lambda m: m.weights, module, copies, is_leaf=lambda leaf: leaf is None)
        return replaced

    @property
    def weights(self) -> Weights:
        """The parameters, as what `feed_forward` takes."""
        return Weights(self.W1, self.b1, self.W2, self.b2, self.V, self.c)

    def __call__(
        self,
        x: jax.Array | np.ndarray[Any, Any],
        *,
        key: jax.Array | None = None,
        inference: bool | None = None,
    ) -> jax.Array:
        """The network on x of shape (..., d_model); `key` and `inference` as of `eqx.nn.Dropout`."""
        off = self.dropout.p == 0 or (self.dropout.inference if inference is None else inference)
        drop = None if off else partial(self.dropout, key=key, inference=False)
        x = jnp.asarray(x) if isinstance(x, np.ndarray) else x  # as in every module of Equinox
        y: jax.Array = forward(x, self.weights, self.activation, drop)
        return y
