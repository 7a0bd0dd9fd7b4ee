"""The gradient of the network in float64, each part with its error: the chain rule, one `Computed` after another."""

from typing import Any

import numpy as np

from portable_ffn.oracle._bound import Computed, Elementwise, activated, affine, reach, roundoff, settle, times
from portable_ffn.oracle._gate import factors, free_gate, moved_by
from portable_ffn.oracle._numbers import FLOATING, Floating

Gradients = dict[str, Computed]


def plus(a: Computed, b: Computed, dtype: Floating) -> Computed:
    """The sum a + b."""
    value, error = a.value + b.value, a.error + b.error
    finite = np.isfinite(a.value) & np.isfinite(b.value)
    return settle(value, error + roundoff(dtype) * (np.abs(value) + error), a.overflow | b.overflow, finite, dtype)


def summed(d: Computed, dtype: Floating) -> Computed:
    """The sum over the tokens, which is the gradient of a bias."""
    shape = (1, d.value.shape[0])
    ones = Computed(np.ones(shape), np.zeros(shape), np.zeros(shape, dtype=bool))
    total = affine(ones, d, None, dtype)
    return total.reshape(d.value.shape[1])


def slope(act: Elementwise, h: Computed, dtype: Floating) -> Computed:
    """act'(h); a few roundings of h itself may carry it across a kink.

    The loss of an evaluation is u (relative + lost) (1 + h**2), which covers 1 - tanh**2 in the tail times the
    derivative of the cubic in the tanh form of GELU (XLA's: 320 u at h = 7); nothing for relu and its like.
    """
    if act.derivative is None:
        raise TypeError("activation must be a name, or bring an attribute `derivative`, for a gradient")
    value, u = act.derivative(h.value), roundoff(dtype)
    inexact = bool(act.relative or act.lost)
    shaken = h._replace(error=h.error + 4.0 * u * np.abs(h.value) + dtype.underflow) if inexact else h
    error = reach(act.derivative, shaken, value)
    if inexact:
        lost = (act.relative + act.lost) * (1.0 + h.value * h.value)
        error = error + u * (2.0 * act.relative * (np.abs(value) + error) + lost) + dtype.underflow
    return settle(value, error, h.overflow, np.isfinite(h.value) & ~np.isnan(value), dtype)


def free_branches(gate: Any, g: Computed, u: Computed, d: Computed, dtype: Floating) -> tuple[Computed, Computed]:
    """The gradients of both branches through a gate object with a method gate_vjp(g, u, d)."""
    if not hasattr(gate, "gate_vjp"):
        raise TypeError("a gate object must bring a method gate_vjp(g, u, d) for a gradient")
    found = []
    for side in (0, 1):

        def part(g_: Any, u_: Any, d_: Any, side: int = side) -> Any:
            return np.asarray(gate.gate_vjp(g_, u_, d_)[side], dtype=np.float64)

        value, moved = moved_by(part, g, u, d)
        size = np.abs(d.value) * (1.0 + np.abs(g.value)) * (1.0 + np.abs(u.value))
        error = moved + roundoff(dtype) * (4.0 * (np.abs(value) + moved) + size) + dtype.underflow * (1.0 + size)
        finite = np.isfinite(g.value) & np.isfinite(u.value) & np.isfinite(d.value) & ~np.isnan(value)
        found.append(settle(value, error, g.overflow | u.overflow | d.overflow, finite, dtype))
    return found[0], found[1]


def branches(
    activation: Any, g: Computed, u: Computed | None, d: Computed, dtype: Floating
) -> tuple[Computed, Computed, Computed | None]:
    """The hidden layer, and the gradients of its two branches given that of itself."""
    both = factors(activation, u is not None)
    if both is None:
        assert u is not None
        return free_gate(activation, g, u, dtype), *free_branches(activation, g, u, d, dtype)
    act, linear = both
    a, s = activated(act, g, dtype), slope(act, g, dtype)
    if u is None or linear is None:
        return a, times(d, s, dtype), None
    el = activated(linear, u, dtype)
    dg = times(times(d, el, dtype), s, dtype)
    du = times(times(d, a, dtype), slope(linear, u, dtype), dtype)
    return times(a, el, dtype), dg, du


def gradients(given: dict[str, Computed], activation: Any, dtype: Floating) -> Gradients:
    """d(sum of y dy) by each argument in `given`, tokens flattened to one axis."""
    x, dy = given["x"], given["dy"]
    g = affine(x, given["W1"], given.get("b1"), dtype)
    u = affine(x, given["V"], given.get("c"), dtype) if "V" in given else None
    m, dg, du = branches(activation, g, u, affine(dy, given["W2"].transposed(), None, dtype), dtype)
    found = {"x": affine(dg, given["W1"].transposed(), None, dtype)}
    found["W1"], found["b1"] = affine(x.transposed(), dg, None, dtype), summed(dg, dtype)
    found["W2"], found["b2"] = affine(m.transposed(), dy, None, dtype), summed(dy, dtype)
    if du is not None:
        found["x"] = plus(found["x"], affine(du, given["V"].transposed(), None, dtype), dtype)
        found["V"], found["c"] = affine(x.transposed(), du, None, dtype), summed(du, dtype)
    return {name: found[name] for name in found if name in given}


def narrowed(gradient: Computed, name: str | None, dtype: Floating) -> Computed:
    """A gradient rounded once more, to its own argument's dtype where that is the narrower one."""
    if name is None or FLOATING[name].bits >= dtype.bits:
        return gradient
    own = FLOATING[name]
    error = gradient.error + own.unit_roundoff * (np.abs(gradient.value) + gradient.error) + own.underflow
    return settle(gradient.value, error, gradient.overflow, np.isfinite(gradient.value), own)
