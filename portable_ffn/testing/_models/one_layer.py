"""One layer of a model against what another has in its place; it alone is in memory."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from portable_ffn import Weights
from portable_ffn.testing._backends.arrays import Float64
from portable_ffn.testing._backends.table import Backend
from portable_ffn.testing._inputs.layers import Given, random_inputs
from portable_ffn.testing._models.against_function import against_function
from portable_ffn.testing._models.against_network import against_network
from portable_ffn.testing._models.layer import Layer
from portable_ffn.testing._models.quantised import format_of, loss_of
from portable_ffn.testing._report.text import said

TOKENS = 8
# Beyond this many numbers in W1 the table of causes is tried on the first layer that differs alone.
SMALL = 1 << 21


class OneLayer:
    """The comparison of one layer, and whether a difference was explained before."""

    def __init__(self, inputs: Mapping[int, Given] | None, seed: int, library: Backend, dtype: str | None) -> None:
        self.inputs, self.seed, self.library, self.dtype = inputs, seed, library, dtype
        self.explained = False

    def layer(self, entry: Any, other: Any) -> Layer:
        """One layer; what can't be loaded or computed is an error of that layer."""
        name = getattr(other, "__name__", type(other).__name__) if callable(other) else other.name
        record = Layer(
            entry.name, name, entry.stack, entry.layer, entry.expert, self.dtype or "", "error", np.nan, np.nan
        )
        try:
            network = entry.load()
            x = self._x(entry.layer, network.weights.d_model)
            if callable(other):
                return against_function(record, network, other, x, self.dtype, self.library, self._explains)
            theirs = other.load()
            record = replace(record, loss=loss_of((format_of(entry), format_of(other)), network, theirs, x))
            return against_network(record, network, theirs, x, self.dtype, self._explains)
        except (Exception, SystemExit) as error:  # a function that ends the process has not been compared
            return replace(record, message=said(error))

    def _x(self, layer: int, d_model: int) -> Float64:
        """What enters the layer."""
        if self.inputs is None:
            return random_inputs(d_model, layer, self.seed, TOKENS).x
        x = self.inputs[layer].x
        if x.shape[-1:] != (d_model,):
            raise ValueError(f"the input of layer {layer} must have shape (..., {d_model}), got {x.shape}")
        return x

    def _explains(self, weights: Weights) -> bool:
        """Whether to try the table of causes on a layer that differs."""
        first, self.explained = not self.explained, True
        return first or weights.W1.size <= SMALL
