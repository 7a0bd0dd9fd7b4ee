"""What a faulty network does beside its two products: steps on values with errors."""

from collections.abc import Callable

import numpy as np

from portable_ffn.testing._backends.arrays import Float64
from portable_ffn.testing._faults.computation import Answer, Computation, Step, elementwise


def scaled(by: float) -> Step:
    """Times a number."""
    return lambda of, v, e: (by * v, abs(by) * e + of.unit * np.abs(by * v))


def shifted(by: "float | Float64") -> Step:
    """Plus a number, or an array that can be added."""

    def step(of: Computation, v: Float64, e: Float64) -> Answer:
        if np.ndim(by) and np.broadcast_shapes(v.shape, np.shape(by)) != v.shape:
            return v, e
        return v + by, e + of.unit * (np.abs(v) + np.abs(by))

    return step


def with_x(by: float) -> Step:
    """Plus x times a number, where x is as wide."""

    def step(of: Computation, v: Float64, e: Float64) -> Answer:
        if v.shape != of.x.shape:
            return v, e
        return v + by * of.x, e + 2.0 * of.unit * (np.abs(v) + np.abs(by * of.x))

    return step


def activated(activation: object) -> Step:
    """An activation."""

    def step(of: Computation, v: Float64, e: Float64) -> Answer:
        act, relative, absolute = elementwise(activation)
        value = act(v)
        moved = np.fmax(np.abs(act(v + e) - value), np.abs(act(v - e) - value))
        return value, np.where(np.isnan(moved), 0.0, moved) + of.unit * (
            (relative + 1.0) * np.abs(value) + (absolute + 1.0) * np.abs(v) * bool(relative)
        )

    return step


def normalised(kind: str, eps: float) -> Step:
    """Layer ("layer") or RMS ("RMS") normalisation over the last axis, without scale."""

    def step(of: Computation, v: Float64, e: Float64) -> Answer:
        if v.shape[-1] < 2 and kind == "layer":
            return np.zeros_like(v), e
        mean = v.mean(axis=-1, keepdims=True) if kind == "layer" else 0.0
        centred = v - mean
        square = (centred * centred).mean(axis=-1, keepdims=True)
        size = np.sqrt(square + eps)
        z = centred / size
        own = of.unit * (np.abs(v) + np.abs(mean)) if kind == "layer" else 0.0
        e = e + own
        moved = e + np.abs(z) * (np.abs(z) * e).mean(axis=-1, keepdims=True)
        if kind == "layer":
            moved = moved + e.mean(axis=-1, keepdims=True)
        # Where squares leave the dtype nothing is known; where they vanish in it, eps is what is left.
        lost = square * v.shape[-1] > of.largest
        return z, np.where(lost, np.inf, moved / size + 8.0 * of.unit * np.abs(z))

    return step


def plain(function: Callable[[Float64], Float64]) -> Step:
    """A rearrangement, the same for values and errors."""
    return lambda of, v, e: (function(v), function(e))


def cut(keep: Callable[[Float64], Float64]) -> Step:
    """Zeros where a mask is 0."""

    def step(of: Computation, v: Float64, e: Float64) -> Answer:
        mask = keep(v)
        return np.where(mask > 0, v, 0.0), e * mask

    return step
