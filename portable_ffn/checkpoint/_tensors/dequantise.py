"""A logical tensor's values from those on disk, or the word that its format is not read."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.tensor import Encoding
from portable_ffn.checkpoint._tensors.formats import DECODERS

_Array: TypeAlias = np.ndarray[Any, Any]


def dequantise(name: str, encoding: Encoding, arrays: Sequence[_Array]) -> _Array:
    """The float32 values of a logical tensor, or CheckpointError that names its format."""
    if told := refusal(name, encoding):
        raise CheckpointError(told)
    # An overflow to inf or a NaN code is a value of the checkpoint, no fault of the reading.
    with np.errstate(all="ignore"):
        try:
            return DECODERS[encoding.decoder](encoding.how, arrays)
        except CheckpointError as error:
            raise CheckpointError(f"{name!r} is {encoding.format}, and {error}") from None


def refusal(name: str, encoding: Encoding) -> str:
    """What is said of a tensor that is not read; empty for one that is."""
    if encoding.fault:
        return f"{name!r} is {encoding.format}, and {encoding.fault}"
    if encoding.decoder in DECODERS:
        return ""
    return (
        f"{name!r} is quantised as {encoding.format} ({', '.join(encoding.sources)}), which is not read; "
        "dequantise the model with the tool that quantised it, and save it as safetensors"
    )
