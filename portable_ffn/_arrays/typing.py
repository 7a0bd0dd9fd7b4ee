"""The types of signatures: an array of any library, and what may stand for an activation."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

Array: TypeAlias = Any
"""An array of any library. No protocol describes all of them well enough to check against."""

DType: TypeAlias = Any
"""A dtype of the array's own library, or its name ("bfloat16")."""

Namespace: TypeAlias = Any
"""A module that offers the functions of the array API standard."""


@runtime_checkable
class Gate(Protocol):
    """What combines the two branches of a gated network otherwise than act(g) * u."""

    def gate(self, g: Array, u: Array) -> Array:
        """The hidden layer, from the activated branch g and the linear branch u, both (..., d_ff)."""
        ...


Activation: TypeAlias = str | Gate | Callable[[Array], Array]
"""A name of `ACTIVATIONS`, a gate object such as `ClippedGate`, or any callable on one array."""
