"""What quantisation costs a layer: how far its weights and its outputs are from those of the model as it was."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from portable_ffn import Weights
from portable_ffn.testing._backends.arrays import Float64


@dataclass(frozen=True, slots=True)
class Loss:
    """How far B is from A, each a share of A's own size (both by the root of the sum of squares).

    Attributes
    ----------
    a, b : str
        The formats that the weights come from; empty where they are not quantised.
    weights : dict of str to float
        By the weight's name.
    outputs : float
        Of what the layer gives for the inputs of the comparison.
    """

    a: str
    b: str
    weights: dict[str, float] = field(default_factory=dict)
    outputs: float = float("nan")

    @property
    def says(self) -> str:
        """In a line."""
        sides = " and ".join(f"{side} is {kind}" for side, kind in (("A", self.a), ("B", self.b)) if kind)
        apart = ", ".join(f"{name} {100 * share:.3g} %" for name, share in self.weights.items())
        return f"{sides}: the weights are apart by {apart} of their size, the outputs by {100 * self.outputs:.3g} %"


def format_of(entry: Any) -> str:
    """The format that an entry's weights come from; empty where they are plain, or B is a function."""
    dtype = getattr(entry, "dtype", "")
    for word in (" from ", " and "):
        if word in dtype:
            return str(dtype.partition(word)[2])
    return ""


def loss_of(formats: tuple[str, str], a: Any, b: Any, x: Float64) -> Loss | None:
    """The loss of two networks; None where neither is quantised, or they are of different shapes."""
    if not any(formats):
        return None
    a, b = (network.to(dtype="float64") for network in (a, b))
    weights = {}
    for name, mine, other in zip(Weights._fields, a.weights, b.weights, strict=True):
        if mine is None or other is None or mine.shape != other.shape:
            if mine is not other:
                return None
            continue
        weights[name] = _apart(mine, other)
    with np.errstate(all="ignore"):
        return Loss(*formats, weights, _apart(a(x), b(x)))


def _apart(mine: Float64, other: Float64) -> float:
    """The size of the difference over the size of the first."""
    with np.errstate(all="ignore"):
        size = float(np.linalg.norm(mine))
        apart = float(np.linalg.norm(np.asarray(other) - mine))
    return apart / size if size else (0.0 if apart == 0.0 else float("inf"))
