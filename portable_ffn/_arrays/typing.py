"""The types of signatures: an array of any library, and what may stand for an activation."""

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

Array: TypeAlias = Any
"""An array of any library. No protocol describes all of them well enough to check against."""

ArrayT = TypeVar("ArrayT")
"""The type of x, and of the result: to a type checker a call with an ndarray returns one, with a Tensor a Tensor."""

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


ActivationName: TypeAlias = Literal[
    "relu",
    "relu2",
    "relu6",
    "gelu",
    "gelu_tanh",
    "quick_gelu",
    "gelu_10",
    "silu",
    "sigmoid",
    "tanh",
    "identity",
    "leaky_relu",
    "elu",
    "selu",
    "mish",
    "softplus",
    "sqrt_softplus",
    "hard_sigmoid",
    "hard_swish",
    "laplace",
    "softsign",
]
"""The names of `ACTIVATIONS`, so that a type checker knows a name from a slip; a test compares the two."""

Activation: TypeAlias = Any
"""A name of `ACTIVATIONS`, a gate object such as `ClippedGate`, or any callable on one array, out of whatever hands."""

KnownActivation: TypeAlias = ActivationName | Gate | Callable[[Array], Array]
"""The same for who writes the name down: a type checker finds a slip in it."""
