"""The hidden layer with its error, from the widened arguments."""

from typing import Any

from portable_ffn.oracle._bound import Computed, affine
from portable_ffn.oracle._gate import combined
from portable_ffn.oracle._numbers import Floating


def layer(given: dict[str, Computed], activation: Any, dtype: Floating) -> Computed:
    """act(x W1 + b1), or act(x W1 + b1) combined with x V + c."""
    x = given["x"]
    g = affine(x, given["W1"], given.get("b1"), dtype)
    u = affine(x, given["V"], given.get("c"), dtype) if "V" in given else None
    return combined(activation, g, u, dtype)
