"""An activation as what a configuration of Keras may hold, and back."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from portable_ffn._activations.gates import ClippedGate
from portable_ffn._activations.gates_more import SoftcapGate, TopKGate
from portable_ffn._activations.learned import XIELU, PReLU, TanhGELU
from portable_ffn._activations.named import Named
from portable_ffn._arrays.typing import Activation
from portable_ffn.adapters._keras import keras

# This package's own activations that are made of numbers; a configuration has the name beside them.
KINDS: Mapping[str, Any] = {
    "ClippedGate": ClippedGate,
    "SoftcapGate": SoftcapGate,
    "TopKGate": TopKGate,
    "PReLU": PReLU,
    "XIELU": XIELU,
    "TanhGELU": TanhGELU,
}
KIND = "portable_ffn"


def serialize(activation: Activation) -> Any:
    """A name, a dictionary of the numbers, or what Keras makes of anything else."""
    if isinstance(activation, str):
        return activation
    if isinstance(activation, Named):
        return activation.name
    own: Any = activation
    if type(own) is KINDS.get(type(own).__name__):
        return {KIND: type(own).__name__, **asdict(own)}
    return keras.saving.serialize_keras_object(activation)


def deserialize(config: Any) -> Activation:
    """The activation that `serialize` was given."""
    if isinstance(config, str):
        return config
    if KIND in config:
        numbers = {name: value for name, value in config.items() if name != KIND}
        own: Activation = KINDS[config[KIND]](**numbers)
        return own
    foreign: Activation = keras.saving.deserialize_keras_object(config)
    return foreign
