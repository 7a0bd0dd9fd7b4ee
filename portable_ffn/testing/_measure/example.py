"""The smallest input that shows a failure: one position, alone where it fails alone."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from portable_ffn.testing._backends.arrays import Float64, take
from portable_ffn.testing._inputs.build import Inputs
from portable_ffn.testing._measure.compare import Agreement, shares


@dataclass(frozen=True, slots=True)
class Example:
    """One position of x whose answer is outside the bound.

    Attributes
    ----------
    position : tuple of int
        Where it stands in the case's x.
    x : tuple of float
        Its features.
    feature : int
        The place in its answer that is worst.
    got, expected, bound : float
        There.
    alone : bool
        Whether x of shape (1, d_model) is enough; else it takes the positions beside it, or that was not tried.
    inputs : Inputs or None
        What the network was given: x, of that one position where it is alone, and the weights.
    """

    position: tuple[int, ...]
    x: tuple[float, ...]
    feature: int
    got: float
    expected: float
    bound: float
    alone: bool
    inputs: Inputs | None = field(default=None, repr=False, compare=False)


def smallest(
    inputs: Inputs,
    found: Agreement,
    expected: Float64,
    bound: Float64,
    again: Callable[[Inputs], Any] | None = None,
) -> Example | None:
    """The worst position, tried alone by `again`; None where no value is outside the bound."""
    if found.place is None or found.values is None or found.worst <= 1.0:
        return None
    position = found.place[:-1]
    x, y, limit = inputs.x[position], expected[position], bound[position]
    whole = _shown(position, x, found.values[position], y, limit, inputs, alone=not position)
    if again is None or not position:
        return whole
    try:
        single = inputs._replace(x=x[np.newaxis])
        got = take(again(single))
    except Exception:  # what fails on one position alone is another failure, of which nobody asked
        return whole
    if got.shape != (1, *y.shape) or not np.any(shares(got[0], y, limit) > 1.0):
        return whole
    return _shown(position, x, got[0], y, limit, single, alone=True)


def _shown(
    position: tuple[int, ...],
    x: Float64,
    got: Float64,
    expected: Float64,
    bound: Float64,
    inputs: Inputs,
    *,
    alone: bool,
) -> Example:
    """An example at the worst feature of its answer."""
    worst = int(np.argmax(shares(got, expected, bound)))
    features = tuple(float(value) for value in x)
    return Example(
        position, features, worst, float(got[worst]), float(expected[worst]), float(bound[worst]), alone, inputs
    )
