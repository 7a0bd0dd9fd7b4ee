"""The arguments, widened and checked: their shapes, the dtype in question, and the error of casting them to it."""

from typing import Any, NamedTuple

import numpy as np

from portable_ffn.oracle._bound import Computed
from portable_ffn.oracle._numbers import FLOATING, Array, Floating, cast_error, dtype_name, promoted, widen


class Operands(NamedTuple):
    """The arguments that are not None, each with its casting error; their own dtypes; the dtype that is asked for."""

    given: dict[str, Computed]
    dtypes: dict[str, str | None]
    precision: Floating


def operands(dtype: Any, /, **arguments: Any) -> Operands:
    """Widen and check the arguments, and settle the dtype whose rounding is asked for."""
    for name in ("x", "W1", "W2", "dy"):
        if name in arguments and arguments[name] is None:
            raise TypeError(f"{name} must be an array, got None")
    wide = {name: widen(name, value) for name, value in arguments.items() if value is not None}
    check_shapes({name: array for name, (array, _) in wide.items()})
    own = [given for key, (_, given) in wide.items() if key != "dy"]  # dy has the dtype of y, which these decide
    precision = FLOATING[promoted(own) if dtype is None else dtype_name(dtype)]
    given = {key: enter(array, precision) for key, (array, _) in wide.items()}
    return Operands(given, {key: name for key, (_, name) in wide.items()}, precision)


def enter(array: Array, dtype: Floating) -> Computed:
    """An argument as it arrives in `dtype`."""
    with np.errstate(all="ignore"):
        too_large = np.isfinite(array) & (np.abs(array) > dtype.largest)
        return Computed(array, cast_error(array, dtype), too_large)


def check_shapes(arrays: dict[str, Array]) -> None:
    """Refuse shapes that don't fit, before broadcasting can hide them."""
    x, W1 = arrays["x"], arrays["W1"]
    if x.ndim == 0:
        raise ValueError("x must have at least one axis, (..., d_model), got a 0-d array")
    if W1.ndim != 2:
        raise ValueError(f"W1 must have shape (d_model, d_ff), got {W1.shape}")
    if "c" in arrays and "V" not in arrays:
        raise ValueError("c is the bias of the linear branch, so it must come with V; got V=None")
    d_model, d_ff = x.shape[-1], W1.shape[1]
    expected = {"W1": (d_model, d_ff), "b1": (d_ff,), "V": (d_model, d_ff), "c": (d_ff,)}
    if "W2" in arrays:
        W2 = arrays["W2"]
        d_out = W2.shape[1] if W2.ndim == 2 else d_model
        expected |= {"W2": (d_ff, d_out), "b2": (d_out,), "dy": (*x.shape[:-1], d_out)}
    wrong = [
        f"{name} must have shape {shape}, got {arrays[name].shape}"
        for name, shape in expected.items()
        if name in arrays and arrays[name].shape != shape
    ]
    if wrong:
        raise ValueError("; ".join(wrong) + f" (x has shape {x.shape})")
