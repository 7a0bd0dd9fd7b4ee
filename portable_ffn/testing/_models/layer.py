"""What a comparison of two models found: a record for each layer, and all together."""

import math
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from portable_ffn.testing._backends.arrays import Float64
from portable_ffn.testing._measure.compare import Agreement, shares
from portable_ffn.testing._measure.example import Example
from portable_ffn.testing._models.quantised import Loss
from portable_ffn.testing._models.unequal import Unequal
from portable_ffn.testing._report.rows import either


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of A, and what B has in its place.

    Attributes
    ----------
    name, other : str
        In A and in B; empty for a file of one network, `other` the function's name where B is one.
    stack : str
    layer : int
    expert : int or None
    dtype : str
        Whose rounding is the unit: the coarser of both.
    status : {"pass", "fail", "error"}
        Within the bound; outside; could not be compared.
    worst, median : float
        The error of B's outputs over the bound; NaN where none were compared.
    causes : tuple of str
        Faults of which each explains the difference.
    facts : tuple of str
        In what the two differ as they stand in their files.
    message : str
        What must hold, what came, and where; of two layers that agree, whether they are equal.
    unequal : tuple of Unequal
        The weights that differ.
    example : Example or None
        The smallest input that shows the difference.
    loss : Loss or None
        What quantisation costs, where either side is quantised.
    """

    name: str
    other: str
    stack: str
    layer: int
    expert: int | None
    dtype: str
    status: Literal["pass", "fail", "error"]
    worst: float
    median: float
    causes: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    message: str = ""
    unequal: tuple[Unequal, ...] = ()
    example: Example | None = None
    loss: Loss | None = None

    @property
    def cause(self) -> str:
        """What explains the difference, in a line."""
        return either(self.causes) or "; ".join(self.facts)

    @property
    def title(self) -> str:
        """The layer in a word or two."""
        expert = "" if self.expert is None else f" expert {self.expert}"
        stack = "" if self.stack == "main" else f"{self.stack} "
        name = f" ({self.name})" if self.name else ""
        return f"{stack}layer {self.layer}{expert}{name}"


def measured(record: Layer, found: Agreement, expected: Float64, bound: Float64) -> Layer:
    """The record with the figures of a comparison."""
    median = math.inf if found.values is None else float(np.median(shares(found.values, expected, bound)))
    status: Literal["pass", "fail"] = "fail" if found.fault else "pass"
    return replace(record, status=status, worst=found.worst, median=median, message=found.fault)


@dataclass(frozen=True, slots=True)
class Compared:
    """Two models, layer by layer.

    Attributes
    ----------
    a, b : str
        What was compared.
    layers : tuple of Layer
        In the order of A.
    only_a, only_b : tuple of str
        Layers that the other has not.
    skipped : tuple of int
        Layers that the given inputs don't have.
    """

    a: str
    b: str
    layers: tuple[Layer, ...]
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    skipped: tuple[int, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether some layer was compared, all agree, and neither has layers of its own."""
        return bool(self.layers) and not self.different and all(layer.status == "pass" for layer in self.layers)

    @property
    def different(self) -> bool:
        """Whether something differs."""
        return self.first is not None or bool(self.only_a or self.only_b)

    @property
    def first(self) -> Layer | None:
        """The first layer that differs."""
        return next((layer for layer in self.layers if layer.status == "fail"), None)
