"""The network as a `keras.layers.Layer`, on the backends of Keras that hold arrays of the standard."""

import sys
from typing import Any

from portable_ffn._activations.named import Named
from portable_ffn._activations.serial import from_dict, to_dict
from portable_ffn._arrays.dtype import dtype_name, widest
from portable_ffn._arrays.typing import Activation, DType
from portable_ffn._network.weights import Weights
from portable_ffn.adapters._keras import keras
from portable_ffn.adapters._module import check_settings, check_weights, forward, shapes

# Under this key a configuration has the kind of an activation of ours that is made of numbers, beside these.
KIND = "portable_ffn"


@keras.saving.register_keras_serializable(package="portable_ffn")
class FeedForward(keras.layers.Layer):  # type: ignore[misc]
    """act(x W1 + b1) W2 + b2, or, gated, (act(x W1 + b1) * (x V + c)) W2 + b2, with dropout on the hidden layer.

    Parameters
    ----------
    d_model : int
    d_ff : int, optional
        4 d_model where it is not given; for a gated network 8/3 d_model, rounded up to a multiple of 64.
    activation : str, gate object or callable
        A name of `portable_ffn.ACTIVATIONS` (and not of Keras, whose "gelu" has two meanings), a gate such as
        `ClippedGate`, or a callable on one tensor; to be saved, one that Keras can serialise.
    gated : bool
        With the linear branch V, c.
    bias : bool
        With b1, b2 and, gated, c.
    dropout : float
        The share of the hidden layer to drop in training, 0 <= dropout < 1.
    seed : int, optional
        Of dropout.
    **kwargs
        What every layer of Keras takes: name, dtype, trainable.

    Attributes
    ----------
    W1, b1, W2, b2, V, c : keras.Variable, or None
        Shapes (d_model, d_ff), (d_ff,), (d_ff, d_model), (d_model,), (d_model, d_ff), (d_ff,). There once the layer
        is built. Initialised as `keras.layers.Dense` does: glorot_uniform, and zeros for biases.

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

    W1 = b1 = W2 = b2 = V = c = None

    def __init__(
        self,
        d_model: int,
        d_ff: int | None = None,
        *,
        activation: Activation = "relu",
        gated: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dropout = check_settings(activation, gated, dropout)
        self.activation = activation
        self.seed = seed
        self.supports_masking = True
        self._gated, self._bias = gated, bias
        self._shapes = shapes(d_model, d_ff, gated, bias)
        self._seeds = keras.random.SeedGenerator(seed) if self.dropout else None
        self.input_spec = keras.layers.InputSpec(min_ndim=1, axes={-1: self._shapes.W1[0]})

    @classmethod
    def from_weights(
        cls,
        weights: Weights,
        *,
        activation: Activation = "relu",
        dropout: float = 0.0,
        dtype: DType | None = None,
        **kwargs: Any,
    ) -> "FeedForward":
        """A built layer with a copy of these weights, of any library; in their widest dtype, or in `dtype`.

        Raises ValueError where the shapes are not those of a network, TypeError where the backend can't hold the
        dtype.
        """
        check_weights(weights)
        given = [dtype_name(array.dtype) for array in weights if array is not None]
        dtype = dtype_name(dtype) if dtype is not None else widest(given) or keras.config.floatx()
        moved = weights.to(like=keras.ops.zeros((0,), dtype="bool"), dtype=dtype)
        bias = any(array is not None for array in (weights.b1, weights.b2, weights.c))
        layer = cls(
            weights.d_model,
            weights.d_ff,
            activation=activation,
            gated=weights.gated,
            bias=bias,
            dropout=dropout,
            dtype=dtype,
            **kwargs,
        )
        layer.build_from_config({"shapes": [None if array is None else list(array.shape) for array in weights]})
        for name, array in zip(Weights._fields, moved, strict=True):
            if array is not None:
                getattr(layer, name).assign(keras.ops.copy(array))
        return layer

    def build(self, input_shape: Any = None) -> None:
        """Create the variables, whose shapes do not depend on the input's."""
        for name, shape in zip(Weights._fields, self._shapes, strict=True):
            initializer = "glorot_uniform" if name in ("W1", "W2", "V") else "zeros"
            variable = None if shape is None else self.add_weight(name=name, shape=shape, initializer=initializer)
            setattr(self, name, variable)
        self.built = True

    @property
    def weights(self) -> Any:
        """The tensors of the variables, as what `feed_forward` takes; the layer is built where it is not.

        Keras itself walks the `weights` of each layer as a list of its variables (to count, to summarise, in
        `get_weights`) and gets that list; for everyone else its name is `variables`.
        """
        if sys._getframe(1).f_globals.get("__name__", "").startswith("keras."):
            return super().weights
        if not self.built:
            self.build()
        return self._tensors()

    def _tensors(self) -> Weights:
        """The values of the variables, in the dtype that the call computes in."""
        variables = (getattr(self, name) for name in Weights._fields)
        return Weights(*(None if variable is None else keras.ops.convert_to_tensor(variable) for variable in variables))

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """The network on inputs of shape (..., d_model)."""
        return forward(inputs, self._tensors(), self.activation, self._drop if training and self.dropout else None)

    def _drop(self, h: Any) -> Any:
        """Dropout on the hidden layer."""
        return keras.random.dropout(h, self.dropout, seed=self._seeds)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """(..., d_model), or the width of W2 where that is a projection."""
        return (*input_shape[:-1], self._shapes.W2[1])

    def get_config(self) -> dict[str, Any]:
        """The settings, for `from_config`."""
        return {
            **super().get_config(),
            "d_model": self._shapes.W1[0],
            "d_ff": self._shapes.W1[1],
            "activation": _serialize(self.activation),
            "gated": self._gated,
            "bias": self._bias,
            "dropout": self.dropout,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "FeedForward":
        """The layer with the settings that `get_config` gave."""
        return cls(**{**config, "activation": _deserialize(config["activation"])})

    def get_build_config(self) -> dict[str, Any]:
        """The shapes, which `from_weights` may have made others than the settings say: a projection, fewer biases."""
        return {"shapes": [None if shape is None else list(shape) for shape in self._shapes]}

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Create variables of these shapes."""
        self._shapes = Weights(*(None if shape is None else tuple(shape) for shape in config["shapes"]))
        self.build()


def _serialize(activation: Activation) -> Any:
    """An activation as a configuration holds it: its name, its numbers, or what Keras makes of anything else."""
    if isinstance(activation, str):
        return activation
    if isinstance(activation, Named):
        return activation.name
    for kind, numbers in (to_dict(activation) or {}).items():
        return {KIND: kind, **numbers}
    return keras.saving.serialize_keras_object(activation)


def _deserialize(config: Any) -> Activation:
    """The activation that `_serialize` was given."""
    if isinstance(config, str):
        return config
    if KIND in config:
        return from_dict({config[KIND]: {name: value for name, value in config.items() if name != KIND}})
    foreign: Activation = keras.saving.deserialize_keras_object(config)
    return foreign
