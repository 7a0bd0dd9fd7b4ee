"""The shapes that must hold, and what to say where they don't. Reads shapes only, never an element."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from portable_ffn._arrays.errors import refusal
from portable_ffn._arrays.typing import Array

NAMES = ("x", "W1", "b1", "W2", "b2", "V", "c")
WEIGHTS = NAMES[1:]
HIDDEN = ("x", "W1", "b1", "V", "c")
LAYER_NORM = ("x", "gamma", "beta")
RMS_NORM = ("x", "gamma")
ONE = ("x",)

ZERO_AXES = ("x", "must have shape (..., d_model), at least one axis, got a 0-d array", "reshape it to (d_model,)")
# (argument, what must hold and what came, what to do or "")
Fault = tuple[str, str, str]


def shape_of(array: Array) -> tuple[int | None, ...]:
    """The shape, with None for a length that is not known yet: None, NaN or -1 in the words of its library."""
    return tuple(None if n is None or n != n or n < 0 else n for n in array.shape)


def check_shapes(
    x: Array,
    W1: Array,
    b1: Array | None,
    W2: Array,
    b2: Array | None,
    V: Array | None,
    c: Array | None,
) -> None:
    """Raise ValueError unless the shapes are those of a network; all faults are told at once."""
    features, inward, outward = x.shape, W1.shape, W2.shape
    if len(features) >= 1 and len(inward) == 2 and len(outward) == 2:
        d_model, d_ff = inward
        if (
            features[-1] == d_model
            and outward[0] == d_ff
            and (b1 is None or b1.shape == (d_ff,))
            and (b2 is None or b2.shape == (outward[1],))
            and (V is None or V.shape == inward)
            and (c is None or (V is not None and c.shape == (d_ff,)))
        ):
            return
    _refuse(_faults(x, W1, b1, W2, b2, V, c))


def check_weights(W1: Array, b1: Array | None, W2: Array, b2: Array | None, V: Array | None, c: Array | None) -> None:
    """The same for the weights alone."""
    _refuse(_faults(None, W1, b1, W2, b2, V, c))


def check_hidden_shapes(x: Array, W1: Array, b1: Array | None, V: Array | None, c: Array | None) -> None:
    """The same for the hidden layer alone."""
    _refuse(_hidden_faults(x, W1, b1, V, c))


def check_norm_shapes(x: Array, gamma: Array | None, beta: Array | None = None) -> None:
    """Raise ValueError unless x has a last axis and the other arrays have its length."""
    if not x.shape:
        raise refusal(ValueError, *ZERO_AXES)
    length = shape_of(x)[-1]
    for name, array in (("gamma", gamma), ("beta", beta)):
        if array is not None and (len(array.shape) != 1 or _differ(shape_of(array)[0], length)):
            statement = f"must have shape (d_model,) = ({_n(length)},), got {_s(shape_of(array))}"
            raise refusal(ValueError, name, statement)


# By the names of the arguments: what their shapes must be.
CHECKS: Mapping[tuple[str, ...], Callable[..., None]] = {
    NAMES: check_shapes,
    WEIGHTS: check_weights,
    HIDDEN: check_hidden_shapes,
    LAYER_NORM: check_norm_shapes,
    RMS_NORM: check_norm_shapes,
    ONE: lambda x: None,
}


def _refuse(found: Iterator[Fault]) -> None:
    """Raise ValueError with all faults, if there are any; it is about the first one's argument."""
    faults = list(found)
    if faults:
        (argument, statement, advice), *rest = faults
        told = ["; ".join(filter(None, (f"{name} {must}", do))) for name, must, do in rest]
        raise refusal(ValueError, argument, statement, "; ".join(filter(None, (advice, *told))))


def _faults(
    x: Array | None, W1: Array, b1: Array | None, W2: Array, b2: Array | None, V: Array | None, c: Array | None
) -> Iterator[Fault]:
    """Every way in which the shapes are not those of a network."""
    told = list(_hidden_faults(x, W1, b1, V, c))
    yield from told
    if told and told[0][0] == "W1":
        return
    shape, d_ff = shape_of(W2), shape_of(W1)[-1] if len(W1.shape) else None
    if len(shape) != 2:
        yield _two_axes("W2", "(d_ff, d_model)", shape)
        return
    if len(W1.shape) == 2 and _differ(shape[0], d_ff):
        d_model = shape_of(W1)[0]
        must = f"must have shape (d_ff, d_model) = ({_n(d_ff)}, {_n(d_model)}), got {_s(shape)}"
        yield "W2", must, "transpose it" if shape == (d_model, d_ff) else f"W1 has d_ff = {d_ff} columns"
    elif b2 is not None:
        yield from _bias("b2", "d_model", b2, shape[1], "W2")


def _hidden_faults(x: Array | None, W1: Array, b1: Array | None, V: Array | None, c: Array | None) -> Iterator[Fault]:
    """Every way in which x (where it is given), W1, b1, V and c don't fit together."""
    features, shape = None if x is None else shape_of(x), shape_of(W1)
    if features == ():
        yield ZERO_AXES
    if len(shape) != 2:
        yield _two_axes("W1", "(d_model, d_ff)", shape)
        return
    d_model, d_ff = shape
    if features and _differ(features[-1], d_model):
        if features[-1] == d_ff:
            must = f"must have shape (d_model, d_ff) with d_model = {features[-1]} as x has, got {_s(shape)}"
            yield "W1", must, "transpose it"
            return  # what else is off would be told in terms of a W1 that is to change
        else:
            yield "x", f"must have shape (..., d_model) with d_model = {_n(d_model)} as W1 has, got {_s(features)}", ""
    if b1 is not None:
        yield from _bias("b1", "d_ff", b1, d_ff, "W1")
    if V is not None and (len(V.shape) != 2 or _differ(shape_of(V)[0], d_model) or _differ(shape_of(V)[1], d_ff)):
        must = f"must have the shape of W1, (d_model, d_ff) = {_s(shape)}, got {_s(shape_of(V))}"
        yield "V", must, "transpose it" if shape_of(V) == (d_ff, d_model) else ""
    if c is not None:
        if V is None:
            yield "c", "must come with V: it is the bias of the linear branch x V + c", "pass V, or None for c"
        else:
            yield from _bias("c", "d_ff", c, d_ff, "V")


def _bias(name: str, symbol: str, bias: Array, length: int | None, weight: str) -> Iterator[Fault]:
    """The fault of a bias, which is never broadcast."""
    shape = shape_of(bias)
    if len(shape) != 1 or _differ(shape[0], length):
        must = f"must have shape ({symbol},) = ({_n(length)},), one number for each column of {weight}, got {_s(shape)}"
        yield name, must, "no bias is broadcast"


def _two_axes(name: str, symbols: str, shape: tuple[int | None, ...]) -> Fault:
    """The fault of a weight that is no matrix."""
    advice = "for a stack of networks map over it (vmap), or take one of the experts" if len(shape) == 3 else ""
    return name, f"must have two axes, {symbols}, got shape {_s(shape)}", advice


def _differ(n: int | None, m: int | None) -> bool:
    """Whether two lengths are known and differ."""
    return n is not None and m is not None and n != m


def _n(length: int | None) -> str:
    """A length in words."""
    return "unknown" if length is None else str(length)


def _s(shape: tuple[Any, ...]) -> str:
    """A shape in words."""
    return f"({', '.join(map(_n, shape))}{',' if len(shape) == 1 else ''})"
