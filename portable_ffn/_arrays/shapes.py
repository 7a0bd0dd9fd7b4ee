"""The shapes that must hold, and what to say where they don't. Reads shapes only, never an element."""

from collections.abc import Iterator

from portable_ffn._arrays.typing import Array

ZERO_AXES = "x must have shape (..., d_model), at least one axis, got a 0-d array; reshape it to (d_model,)"
NAMES = ("x", "W1", "b1", "W2", "b2", "V", "c")


def shape_of(array: Array) -> tuple[int | None, ...]:
    """The shape, with None for a length that a lazy array does not know yet."""
    return tuple(None if n is None or n != n else n for n in array.shape)


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
    faults = list(_faults(x, W1, b1, W2, b2, V, c))
    if faults:
        raise ValueError("; ".join(faults))


def check_hidden_shapes(x: Array, W1: Array, b1: Array | None, V: Array | None, c: Array | None) -> None:
    """The same for the hidden layer alone."""
    faults = list(_hidden_faults(x, W1, b1, V, c))
    if faults:
        raise ValueError("; ".join(faults))


def _faults(x: Array, W1: Array, b1: Array, W2: Array, b2: Array, V: Array, c: Array) -> Iterator[str]:
    """Every way in which the shapes are not those of a network, in words."""
    told = list(_hidden_faults(x, W1, b1, V, c))
    yield from told
    if told and told[0].startswith("W1"):
        return
    shape, d_ff = shape_of(W2), shape_of(W1)[-1] if W1.ndim else None
    if len(shape) != 2:
        yield _two_axes("W2", "(d_ff, d_model)", shape)
        return
    if W1.ndim == 2 and _differ(shape[0], d_ff):
        d_model = shape_of(W1)[0]
        turned = "; transpose it" if shape == (d_model, d_ff) else f"; W1 has d_ff = {d_ff} columns"
        yield f"W2 must have shape (d_ff, d_model) = ({_n(d_ff)}, {_n(d_model)}), got {_s(shape)}{turned}"
    elif b2 is not None:
        yield from _bias("b2", "d_model", b2, shape[1], "W2")


def _hidden_faults(x: Array, W1: Array, b1: Array, V: Array, c: Array) -> Iterator[str]:
    """Every way in which x, W1, b1, V and c don't fit together."""
    features, shape = shape_of(x), shape_of(W1)
    if not features:
        yield ZERO_AXES
    if len(shape) != 2:
        yield _two_axes("W1", "(d_model, d_ff)", shape)
        return
    d_model, d_ff = shape
    if features and _differ(features[-1], d_model):
        if features[-1] == d_ff:
            yield (
                f"W1 must have shape (d_model, d_ff) with d_model = {features[-1]} as x has, "
                f"got {_s(shape)}; transpose it"
            )
            return  # what else is off would be told in terms of a W1 that is to change
        else:
            yield f"x must have shape (..., d_model) with d_model = {_n(d_model)} as W1 has, got {_s(features)}"
    if b1 is not None:
        yield from _bias("b1", "d_ff", b1, d_ff, "W1")
    if V is not None and (V.ndim != 2 or _differ(shape_of(V)[0], d_model) or _differ(shape_of(V)[1], d_ff)):
        turned = "; transpose it" if shape_of(V) == (d_ff, d_model) else ""
        yield f"V must have the shape of W1, (d_model, d_ff) = {_s(shape)}, got {_s(shape_of(V))}{turned}"
    if c is not None:
        if V is None:
            yield "c must come with V: it is the bias of the linear branch x V + c; pass V, or None for c"
        else:
            yield from _bias("c", "d_ff", c, d_ff, "V")


def _bias(name: str, symbol: str, bias: Array, length: int | None, weight: str) -> Iterator[str]:
    """The fault of a bias, which is never broadcast."""
    shape = shape_of(bias)
    if len(shape) != 1 or _differ(shape[0], length):
        yield (
            f"{name} must have shape ({symbol},) = ({_n(length)},), one number for each column of {weight}, "
            f"got {_s(shape)}; no bias is broadcast"
        )


def _two_axes(name: str, symbols: str, shape: tuple[int | None, ...]) -> str:
    """The fault of a weight that is no matrix."""
    way_out = "; for a stack of networks map over it (vmap), or take one of the experts" if len(shape) == 3 else ""
    return f"{name} must have two axes, {symbols}, got shape {_s(shape)}{way_out}"


def _differ(n: int | None, m: int | None) -> bool:
    """Whether two lengths are known and differ."""
    return n is not None and m is not None and n != m


def _n(length: int | None) -> str:
    """A length in words."""
    return "unknown" if length is None else str(length)


def _s(shape: tuple[int | None, ...]) -> str:
    """A shape in words."""
    return f"({', '.join(map(_n, shape))}{',' if len(shape) == 1 else ''})"


def check_norm_shapes(names: tuple[str, ...], x: Array, *others: Array | None) -> None:
    """Raise ValueError unless x has a last axis and the other arrays have its length."""
    if not x.shape:
        raise ValueError(ZERO_AXES)
    length = shape_of(x)[-1]
    for name, array in zip(names[1:], others, strict=True):
        if array is not None and (array.ndim != 1 or _differ(shape_of(array)[0], length)):
            raise ValueError(f"{name} must have shape (d_model,) = ({_n(length)},), got {_s(shape_of(array))}")
