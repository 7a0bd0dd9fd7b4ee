"""Faults of the biases and of the two branches."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from portable_ffn.testing._backends.arrays import Float64
from portable_ffn.testing._faults.activations import acting
from portable_ffn.testing._faults.computation import Computation, elementwise
from portable_ffn.testing._faults.row import Fault, Meant
from portable_ffn.testing._faults.steps import activated, shifted

Change = Callable[[Computation], Computation]


def another_bias(meant: Meant) -> Iterator[Fault]:
    """Biases missing, several times, exchanged, or added at another place."""
    given = [name for name in ("b1", "b2", "c") if name in meant.taken]
    for name in given:
        yield Fault(f"{name} missing", partial(_without, (name,)), True)
    if len(given) > 1:
        yield Fault("all biases missing", partial(_without, tuple(given)), True)
    for name in given:
        for by, said in ((2.0, "added twice"), (-1.0, "subtracted"), (0.5, "times 0.5")):
            yield Fault(f"{name} {said}", times((name,), by), by == 2.0)
        for by in (3.0, 4.0, 8.0):
            yield Fault(f"{name} times {by:g}", times((name,), by))
    if {"b1", "b2"} <= set(given):
        yield Fault("b1 and b2 swapped", _swapped("b1", "b2"))
    if {"b1", "c"} <= set(given):
        yield Fault("b1 and c swapped", _swapped("b1", "c"))
        yield Fault("b1 for c as well", lambda of: of.having(c=of.b1))
        yield Fault("c for b1 as well", lambda of: of.having(b1=of.c))
    if "b1" in given:
        yield Fault("b1 added after the activation instead of before", _after("b1", instead=True))
        yield Fault("b1 added after the activation as well", _after("b1", instead=False))
    if "c" in given and meant.gated:
        yield Fault("c added to the product of the branches", _after("c", instead=True))
    if "b2" in given:
        yield Fault("b2 added to x instead of to the output", _b2_to_x)


def _without(names: tuple[str, ...], of: Computation) -> Computation:
    """Some arrays missing."""
    return of.having(**dict.fromkeys(names))


def times(names: tuple[str, ...], by: float) -> Change:
    """Some arrays times a number."""

    def change(of: Computation) -> Computation:
        arrays = {name: getattr(of, name) for name in names}
        return of.having(**{name: by * array for name, array in arrays.items() if array is not None})

    return change


def _swapped(one: str, other: str) -> Change:
    """Two vectors exchanged where they are of one shape."""

    def change(of: Computation) -> Computation:
        a, b = getattr(of, one), getattr(of, other)
        return of.having(**{one: b, other: a}) if a.shape == b.shape else of

    return change


def _after(name: str, instead: bool) -> Change:
    """A bias added to the hidden layer."""

    def change(of: Computation) -> Computation:
        kept = of if not instead else of.having(**{name: None})
        return kept.also("between", shifted(getattr(of, name)))

    return change


def _b2_to_x(of: Computation) -> Computation:
    """Where x is as wide as the output."""
    if of.b2 is None or of.b2.shape != of.x.shape[-1:]:
        return of
    return of.having(b2=None).also("before", shifted(of.b2))


def another_branch(meant: Meant) -> Iterator[Fault]:
    """Gate and linear branch exchanged, missing, combined otherwise; halves of a fused matrix in another order."""
    if not meant.gated:
        return
    act = meant.activation
    yield Fault("gate and linear branch swapped", _exchanged, True)
    yield Fault("W1 for V as well", lambda of: of.having(V=of.W1, c=of.b1))
    yield Fault("V for W1 as well", lambda of: of if of.V is None else of.having(W1=of.V, b1=of.c))
    if not hasattr(act, "gate"):
        yield Fault("the linear branch missing", lambda of: of.having(V=None, c=None), True)
        yield Fault("the activated branch missing", _linear_alone)
        yield Fault("the linear branch activated as well", lambda of: of.also("linear", activated(act)))
        yield Fault("the product of the branches activated", partial(_product, act))
        once_more = activated(act)
        yield Fault("the product of the branches activated once more", lambda of: of.also("between", once_more))
        yield Fault("the branches added instead of multiplied", acting(_Added(act)))
    yield Fault("halves read as interleaved", _fused(_as_interleaved))
    yield Fault("interleaved columns read as halves", _fused(_as_halves))
    for block in (2, 4, 8, 16, 32, 64):
        yield Fault(f"halves read as interleaved by blocks of {block}", _fused(_blocks(block)))
        yield Fault(f"columns interleaved by blocks of {block} read as halves", _fused(_unblocks(block)))


def _exchanged(of: Computation) -> Computation:
    """The branches in each other's place; the one that is there where the other is missing."""
    return of if of.V is None else of.having(W1=of.V, b1=of.c, V=of.W1, c=of.b1)


def _linear_alone(of: Computation) -> Computation:
    """The linear branch without the other."""
    return acting("identity")(of.having(W1=of.V, b1=of.c, V=None, c=None))


def _product(activation: Any, of: Computation) -> Computation:
    """The activation of the product."""
    return acting("identity")(of).also("between", activated(activation))


class _Added:
    """The sum act(g) + u."""

    def __init__(self, activation: Any) -> None:
        self.activation = activation

    def gate(self, g: Float64, u: Float64) -> Float64:
        """The hidden layer."""
        return elementwise(self.activation)[0](g) + u


def _fused(order: Callable[[int], Any]) -> Change:
    """The columns of [W1 | V], and their biases, taken in another order."""

    def change(of: Computation) -> Computation:
        d_ff = of.W1.shape[1]
        taken = order(d_ff)
        if of.V is None or taken is None:
            return of
        fused = np.concatenate([of.W1, of.V], axis=1)[:, taken]
        changed: dict[str, Any] = {"W1": fused[:, :d_ff], "V": fused[:, d_ff:]}
        if of.b1 is not None and of.c is not None:
            both = np.concatenate([of.b1, of.c])[taken]
            changed |= {"b1": both[:d_ff], "c": both[d_ff:]}
        return of.having(**changed)

    return change


def _as_interleaved(d_ff: int) -> Any:
    """Even columns, then odd ones."""
    return np.arange(2 * d_ff).reshape(d_ff, 2).T.ravel()


def _as_halves(d_ff: int) -> Any:
    """One of each half in turn."""
    return np.arange(2 * d_ff).reshape(2, d_ff).T.ravel()


def _blocks(block: int) -> Callable[[int], Any]:
    """Even blocks, then odd ones."""

    def order(d_ff: int) -> Any:
        return None if d_ff % block else np.arange(2 * d_ff).reshape(d_ff // block, 2, block).swapaxes(0, 1).ravel()

    return order


def _unblocks(block: int) -> Callable[[int], Any]:
    """A block of each half in turn."""

    def order(d_ff: int) -> Any:
        return None if d_ff % block else np.arange(2 * d_ff).reshape(2, d_ff // block, block).swapaxes(0, 1).ravel()

    return order
