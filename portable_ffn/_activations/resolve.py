"""From what a user passes as `activation=` to the one thing that the network calls."""

from collections.abc import Callable
from typing import Any, Protocol

from portable_ffn._activations.bases import Combiner, Elementwise
from portable_ffn._activations.table import named
from portable_ffn._arrays.dtype import COMPUTABLE, dtype_name
from portable_ffn._arrays.errors import refusal
from portable_ffn._arrays.kind import kind_of
from portable_ffn._arrays.library import library_of
from portable_ffn._arrays.promotion import astype
from portable_ffn._arrays.typing import Activation, Array, Gate, Namespace


class Hidden(Protocol):
    """What makes the hidden layer of its two branches, (..., d_ff) each, u None where the network isn't gated."""

    def combine(self, g: Array, u: Array | None, xp: Namespace) -> Array:
        """The hidden layer."""
        ...

    def gradients(self, g: Array, u: Array | None, d: Array, xp: Namespace) -> tuple[Array, Array, Array | None]:
        """The hidden layer, and the gradients of its branches, given d, that of itself."""
        ...


class Custom:
    """A callable of the user's on one array."""

    def __init__(self, function: Callable[[Array], Array]) -> None:
        self.function = function

    def combine(self, g: Array, u: Array | None, xp: Namespace) -> Array:
        """function(g), times u where the network is gated."""
        a = returned(self.function(g), g, xp)
        return a if u is None else a * u

    def gradients(self, g: Array, u: Array | None, d: Array, xp: Namespace) -> tuple[Array, Array, Array | None]:
        """As the chain rule has it."""
        function: Any = self.function
        # It may work in place, so each call gets an array of its own: times 1 is a copy in every library.
        slope = returned(function.derivative(g * 1), g, xp)
        a = returned(function(g), g, xp)
        return (a, d * slope, None) if u is None else (a * u, d * u * slope, d * a)


class Combining:
    """A gate object of the user's: it makes the hidden layer of both branches."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def combine(self, g: Array, u: Array | None, xp: Namespace) -> Array:
        """gate(g, u)."""
        return returned(self.gate.gate(g, u), g, xp)

    def gradients(self, g: Array, u: Array | None, d: Array, xp: Namespace) -> tuple[Array, Array, Array | None]:
        """As the gate says."""
        gate: Any = self.gate
        dg, du = gate.gate_vjp(g * 1, u * 1, d)  # type: ignore[operator]
        return self.combine(g, u, xp), returned(dg, g, xp), returned(du, g, xp)


def resolve(activation: Activation, gated: bool, *, differentiable: bool = False) -> Hidden:
    """What makes the hidden layer; where it must be `differentiable`, it brings its derivative.

    Raises ValueError for an unknown name and for a gate without V, TypeError for what can't be called and for an
    activation of the user's that lacks the derivative.
    """
    if isinstance(activation, str):
        return named(activation)
    if hasattr(activation, "gate"):
        if not gated:
            raise refusal(
                ValueError,
                "activation",
                f"must be a function of one array where V is None, got the gate {kind_of(activation)}",
                "pass V, the weights of the linear branch (a module: gated=True)",
            )
        if isinstance(activation, Combiner) and _as_written(activation, Combiner, "gate", "gate_vjp"):
            return activation
        if differentiable and not callable(getattr(activation, "gate_vjp", None)):
            raise _lacks(activation, "gradient as a method `gate_vjp(g, u, d)` that returns (dg, du)", "add it")
        return Combining(activation)
    if isinstance(activation, Elementwise) and _as_written(activation, Elementwise, "__call__", "derivative"):
        return activation
    if callable(activation):
        if differentiable and not callable(getattr(activation, "derivative", None)):
            derivative = "derivative as an attribute `derivative`, a function of the same array"
            raise _lacks(activation, derivative, "set it, or pass a name")
        return Custom(activation)
    raise refusal(
        TypeError,
        "activation",
        f"must be a name, a gate such as ClippedGate, or a callable on one array, got {kind_of(activation)}",
    )


def _as_written(activation: Any, base: type, *methods: str) -> bool:
    """Whether no subclass has given these methods another meaning."""
    return all(getattr(type(activation), method) is getattr(base, method) for method in methods)


def _lacks(activation: Any, derivative: str, advice: str) -> TypeError:
    """The error for an activation of the user's without its derivative."""
    gate = "the gate " if hasattr(activation, "gate") else ""
    statement = f"must bring its {derivative}, got {gate}{kind_of(activation)} without one"
    return refusal(TypeError, "activation", statement, advice)


def returned(a: Any, g: Array, xp: Namespace) -> Array:
    """What the user's function returned, in the dtype of the hidden layer: its constants don't change that."""
    if library_of(a) is None or library_of(a) != library_of(g):
        statement = f"must return an array of the library of its argument, got {kind_of(a)}"
        raise refusal(TypeError, "activation", statement)
    # A length that a lazy array doesn't know yet is NaN.
    known = all(n == n for n in (*a.shape, *g.shape))
    if a.ndim != g.ndim or (known and tuple(a.shape) != tuple(g.shape)):
        statement = f"must keep the shape of its argument, {tuple(g.shape)}, got {tuple(a.shape)}"
        raise refusal(ValueError, "activation", statement)
    if dtype_name(a.dtype) not in COMPUTABLE:
        statement = f"must return real numbers, got dtype {dtype_name(a.dtype)}"
        raise refusal(TypeError, "activation", statement, "cast what it returns")
    return astype(a, g.dtype, xp)
