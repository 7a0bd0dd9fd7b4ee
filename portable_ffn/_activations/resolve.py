"""From what a user passes as `activation=` to the one thing that the network calls."""

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from portable_ffn._activations.named import Named
from portable_ffn._activations.table import ACTIVATIONS
from portable_ffn._arrays.dtype import COMPUTABLE, dtype_name
from portable_ffn._arrays.library import kind_of, library_of
from portable_ffn._arrays.promotion import astype
from portable_ffn._arrays.typing import Activation, Array, Gate, Namespace


class Custom:
    """A callable of the user's on one array."""

    def __init__(self, function: Callable[[Array], Array]) -> None:
        self.function = function

    def combine(self, g: Array, u: Array | None, xp: Namespace) -> Array:
        """function(g), times u where the network is gated."""
        a = returned(self.function(g), g, xp)
        return a if u is None else a * u


class Combining:
    """A gate object: it makes the hidden layer of both branches."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def combine(self, g: Array, u: Array | None, xp: Namespace) -> Array:
        """gate(g, u)."""
        return returned(self.gate.gate(g, u), g, xp)


def resolve(activation: Activation, gated: bool) -> Named | Custom | Combining:
    """What makes the hidden layer.

    Raises ValueError for an unknown name and for a gate without V, TypeError for what can't be called.
    """
    if isinstance(activation, str):
        named = ACTIVATIONS.get(activation)
        if named is None:
            raise _unknown(activation)
        return named
    if isinstance(activation, Named):
        return activation
    if hasattr(activation, "gate"):
        if not gated:
            raise ValueError(
                f"activation must be a function of one array where V is None, got the gate {kind_of(activation)}; "
                "pass V, the weights of the linear branch (a module: gated=True)",
            )
        return Combining(activation)
    if callable(activation):
        return Custom(activation)
    raise TypeError(
        f"activation must be a name, a gate such as ClippedGate, or a callable on one array, got {kind_of(activation)}",
    )


def _unknown(name: str) -> ValueError:
    """The error for a name that is not in the table: all names, and the nearest."""
    near = get_close_matches(name.lower(), ACTIVATIONS, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {name!r}{hint}")


def returned(a: Any, g: Array, xp: Namespace) -> Array:
    """What the user's function returned, in the dtype of the hidden layer: its constants don't change that."""
    if library_of(a) is None or library_of(a) != library_of(g):
        raise TypeError(f"activation must return an array of the library of its argument, got {kind_of(a)}")
    if a.ndim != g.ndim:
        raise ValueError(f"activation must keep the shape of its argument, {tuple(g.shape)}, got {tuple(a.shape)}")
    if tuple(a.shape) != tuple(g.shape) and all(n == n for n in (*a.shape, *g.shape)):
        raise ValueError(f"activation must keep the shape of its argument, {tuple(g.shape)}, got {tuple(a.shape)}")
    if dtype_name(a.dtype) not in COMPUTABLE:
        raise TypeError(f"activation must return real numbers, got dtype {dtype_name(a.dtype)}; cast what it returns")
    return astype(a, g.dtype, xp)
