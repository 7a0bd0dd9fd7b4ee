"""From the gradient of the hidden layer to those of its two branches."""

from typing import Any, TypeAlias

from portable_ffn._activations.named import Named, pair_through_float32
from portable_ffn._activations.resolve import Combining, Custom, returned
from portable_ffn._arrays.library import kind_of
from portable_ffn._arrays.typing import Array, Namespace

Resolved: TypeAlias = Named | Custom | Combining


def differentiable(act: Resolved) -> Resolved:
    """`act` itself; TypeError where the user's own activation brings no derivative."""
    if isinstance(act, Custom) and not callable(getattr(act.function, "derivative", None)):
        raise TypeError(
            "activation must bring its derivative as an attribute `derivative`, a function of the same array, got "
            f"{kind_of(act.function)} without one; set it, or pass a name",
        )
    if isinstance(act, Combining) and not callable(getattr(act.gate, "gate_vjp", None)):
        raise TypeError(
            "activation must bring its gradient as a method `gate_vjp(g, u, d)` that returns (dg, du), got the gate "
            f"{kind_of(act.gate)} without one; add it",
        )
    return act


def branches(act: Resolved, g: Array, u: Array | None, d: Array, xp: Namespace) -> tuple[Array, Array, Array | None]:
    """The hidden layer, and the gradients of its activated and its linear branch, given d, that of itself."""
    if isinstance(act, Named):
        return _named(act, g, u, d, xp)
    # A user's function may work in place, so each gets branches of its own: times 1 is a copy in every library.
    if isinstance(act, Combining):
        dg, du = act.gate.gate_vjp(g * 1, u * 1, d)  # type: ignore[attr-defined, operator]
        return act.combine(g, u, xp), returned(dg, g, xp), returned(du, g, xp)
    function: Any = act.function
    slope = returned(function.derivative(g * 1), g, xp)
    a = returned(function(g), g, xp)
    if u is None:
        return a, d * slope, None
    return a * u, d * u * slope, d * a


def _named(act: Named, g: Array, u: Array | None, d: Array, xp: Namespace) -> tuple[Array, Array, Array | None]:
    """The same for an activation of the table, half precision rounded once."""

    def formula(xp: Any, g: Array, d: Array, u: Array | None = None) -> tuple[Array, ...]:
        a, slope = act.value(g, xp), act.slope(g, xp)
        return (a, d * slope) if u is None else (a * u, d * u * slope, d * a)

    found = pair_through_float32(formula, (g, d) if u is None else (g, d, u), xp)
    return found if u is not None else (*found, None)
