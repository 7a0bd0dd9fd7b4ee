"""From `activation=` to the hidden layer: names, clipped gates, gate objects and callables."""

import difflib
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from portable_ffn.oracle._bound import Computed, Elementwise, activated, affine, roundoff, settle, times
from portable_ffn.oracle._formulas import FORMULAS, Formula, Scalar
from portable_ffn.oracle._numbers import Array, Floating
from portable_ffn.oracle._scalars import clamp, scaled_silu, scaled_silu_slope, within


def on_array(scalar: Scalar) -> Callable[[Array], Array]:
    """A scalar formula applied to each element."""
    return lambda h: np.fromiter(map(scalar, h.ravel().tolist()), np.float64, h.size).reshape(h.shape)


def elementwise(row: Formula) -> Elementwise:
    """A row of the table, on arrays."""
    return Elementwise(on_array(row.value), on_array(row.derivative), *row[2:])


def from_callable(function: Callable[[Array], Any]) -> Elementwise:
    """A caller's own activation: its slope comes from differences, and its rounding is taken for that of a gate."""

    def value(h: Array) -> Array:
        result = np.asarray(function(h), dtype=np.float64)
        if result.shape != h.shape:
            raise ValueError(
                f"activation must return an array of its argument's shape {h.shape}, got shape {result.shape}"
            )
        return result

    return Elementwise(value, getattr(function, "derivative", None), 4.0, 1.0, 1, 1.0)


def is_clipped(activation: Any) -> bool:
    """Whether it is a ClippedGate, known by its four numbers and not by its class."""
    return all(hasattr(activation, field) for field in ("limit", "alpha", "offset", "clip"))


def clipped_gate(gate: Any) -> tuple[Elementwise, Elementwise]:
    """The two factors of a ClippedGate: the gate clamped above only, the linear branch on both sides, plus offset."""
    limit = math.inf if gate.limit is None else float(gate.limit)
    alpha, offset = float(gate.alpha), float(gate.offset)
    if gate.clip == "before":
        act = Formula(
            lambda g: scaled_silu(min(g, limit), alpha),
            lambda g: within(g, -math.inf, limit, scaled_silu_slope(g, alpha)),
            3, 1, 1,
        )  # fmt: skip
    elif gate.clip == "after":
        act = Formula(
            lambda g: min(scaled_silu(g, alpha), limit),
            lambda g: within(scaled_silu(g, alpha), -math.inf, limit, scaled_silu_slope(g, alpha)),
            3, 1, 1,
        )  # fmt: skip
    else:
        raise ValueError(f'clip must be "before" or "after", got {gate.clip!r}')
    linear = Formula(lambda u: clamp(u, -limit, limit) + offset, lambda u: within(u, -limit, limit), 1)
    return elementwise(act), elementwise(linear)


def by_name(activation: Any) -> Elementwise:
    """The activation of that name, or the caller's function."""
    if isinstance(activation, str):
        if activation not in FORMULAS:
            nearest = difflib.get_close_matches(activation, FORMULAS, n=1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
            raise ValueError(f"activation must be one of {', '.join(sorted(FORMULAS))}, got {activation!r}{hint}")
        return elementwise(FORMULAS[activation])
    if callable(activation):
        return from_callable(activation)
    raise TypeError(f"activation must be a name, a gate object or a callable, got {type(activation).__name__}")


def factors(activation: Any, gated: bool) -> tuple[Elementwise, Elementwise | None] | None:
    """What becomes of each branch before they are multiplied; None for a gate object that mixes them in its own way."""
    clipped = is_clipped(activation)
    if clipped or hasattr(activation, "gate"):
        if not gated:
            raise ValueError("a gate object needs the linear branch V, got V=None; give V or name an activation")
        return clipped_gate(activation) if clipped else None
    return by_name(activation), elementwise(FORMULAS["identity"]) if gated else None


def moved_by(function: Callable[..., Any], *arguments: Computed) -> tuple[Array, Array]:
    """A function of several arrays, and how far it moves when any of them move by their errors."""
    value = np.asarray(function(*(a.value for a in arguments)), dtype=np.float64)
    if value.shape != arguments[0].value.shape:
        raise ValueError(f"a gate must return an array of its branches' shape, got {value.shape}")
    moved = np.zeros_like(value)
    for signs in itertools.product((-1.0, 0.0, 1.0), repeat=len(arguments)):
        there = function(*(a.value + sign * a.error for sign, a in zip(signs, arguments, strict=True)))
        moved = np.fmax(moved, np.abs(np.asarray(there, dtype=np.float64) - value))
    return value, moved


def free_gate(gate: Any, g: Computed, u: Computed, dtype: Floating) -> Computed:
    """gate(g, u) of a gate object; its rounding is taken for that of act(g) u with an act that cancels."""
    value, moved = moved_by(gate.gate, g, u)
    product = np.abs(g.value * u.value)
    rounded = roundoff(dtype) * (4.0 * (np.abs(value) + moved) + product) + dtype.underflow * (1.0 + product)
    finite = np.isfinite(g.value) & np.isfinite(u.value) & ~np.isnan(value)
    return settle(value, moved + rounded, g.overflow | u.overflow, finite, dtype)


def combined(activation: Any, g: Computed, u: Computed | None, dtype: Floating) -> Computed:
    """act(g), act(g) * u, or what the gate object makes of both."""
    both = factors(activation, u is not None)
    if both is None:
        assert u is not None
        return free_gate(activation, g, u, dtype)
    act, linear = both
    a = activated(act, g, dtype)
    return a if u is None or linear is None else times(a, activated(linear, u, dtype), dtype)


def layer(given: dict[str, Computed], activation: Any, dtype: Floating) -> Computed:
    """act(x W1 + b1), or act(x W1 + b1) combined with x V + c."""
    x = given["x"]
    g = affine(x, given["W1"], given.get("b1"), dtype)
    u = affine(x, given["V"], given.get("c"), dtype) if "V" in given else None
    return combined(activation, g, u, dtype)
