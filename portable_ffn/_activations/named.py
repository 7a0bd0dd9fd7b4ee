"""Activations that have a name, and the name of any activation in a word."""

from dataclasses import dataclass

from portable_ffn._activations.bases import Elementwise, Formula
from portable_ffn._activations.described import described
from portable_ffn._arrays.typing import Activation


class _Doc:
    """The docstring of a class, and one of their own for its entries."""

    def __init__(self, of_the_class: str) -> None:
        self.of_the_class = of_the_class

    def __get__(self, one: "Named | None", owner: type) -> str:
        """What `help` shows."""
        return self.of_the_class if one is None else f"{described(one.name)}\n\n{_CALLED}"


_CALLED = (
    "Called on an array of any library it works on each element: the shape and the library are the argument's, the\n"
    "dtype too (an integer one becomes the library's default float). Anything else is a TypeError."
)


@dataclass(frozen=True, slots=True, repr=False)
class Named(Elementwise):
    """An activation that has a name: an entry of `ACTIVATIONS`."""

    __doc__ = _Doc(f"An activation that has a name: an entry of `ACTIVATIONS`.\n\n{_CALLED}")

    name: str
    value: Formula
    slope: Formula

    def __repr__(self) -> str:
        return f"ACTIVATIONS[{self.name!r}]"


def activation_name(activation: Activation) -> str:
    """An activation in a word: its name, a gate's repr, a function's own name."""
    if isinstance(activation, str):
        return activation
    if hasattr(activation, "gate"):
        return repr(activation)
    return str(getattr(activation, "name", None) or getattr(activation, "__name__", None) or type(activation).__name__)
