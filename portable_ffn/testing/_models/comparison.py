"""What a comparison of two models found: a record for each layer."""

import json
import math
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from portable_ffn.testing._backends.arrays import Float64
from portable_ffn.testing._measure.compare import Agreement, shares
from portable_ffn.testing._measure.example import Example
from portable_ffn.testing._models.unequal import Unequal
from portable_ffn.testing._report.page import write
from portable_ffn.testing._report.report import json_numbers
from portable_ffn.testing._report.text import aligned, number


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
    cause : str
        What explains the difference.
    message : str
        What must hold, what came, and where; of two layers that agree, whether they are equal.
    unequal : tuple of Unequal
        The weights that differ.
    example : Example or None
        The smallest input that shows the difference.
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
    cause: str = ""
    message: str = ""
    unequal: tuple[Unequal, ...] = ()
    example: Example | None = None

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
class Comparison:
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

    def to_json(self) -> str:
        """One JSON document: passed, a, b, first (its number among `layers`), layers, only_a, only_b, skipped.

        A number is null where it is NaN, and a string where it is infinite.
        """
        first = None if self.first is None else self.layers.index(self.first)
        content = {"passed": self.passed, "first": first, **asdict(self)}
        return json.dumps(json_numbers(content), indent=1, allow_nan=False)

    def to_html(self, path: str | Path) -> None:
        """Write one page, complete in itself, that shows where to look.

        Raises OSError where it can't be written, with the folder's name where that doesn't exist.
        """
        from portable_ffn.testing._models.page import page

        write(path, page(self))

    def __str__(self) -> str:
        table: list[tuple[str, ...]] = [("layer", "dtype", "worst/bound", "median/bound", "verdict")]
        for layer in self.layers:
            verdict = {"pass": "agrees", "fail": "DIFFERS", "error": " ".join(layer.message.split())}[layer.status]
            if layer.status == "pass" and layer.message:
                verdict += f" ({layer.message})"
            table.append((layer.title, layer.dtype, number(layer.worst), number(layer.median), verdict))
        lines = [f"A: {self.a}", f"B: {self.b}", *aligned(table)]
        if self.first is not None:
            lines.append(f"the first that differs is {self.first.title}: {self.first.message}")
            lines.append(f"  because: {self.first.cause or 'nothing that is known explains it'}")
            lines += [f"  {one.says}" for one in self.first.unequal if one.says not in self.first.cause]
        for side, names in (("A", self.only_a), ("B", self.only_b)):
            if names:
                lines.append(f"only in {side}: {', '.join(names)}")
        if self.skipped:
            lines.append(f"not compared, since the inputs don't have them: layers {', '.join(map(str, self.skipped))}")
        found = Counter(layer.status for layer in self.layers)
        counts = f"{found['pass']} of {len(self.layers)} layers agree"
        if found["error"]:
            counts += f", {found['error']} could not be compared"
        lines.append(f"{'passed' if self.passed else 'not passed'}: {counts}")
        return "\n".join(lines)
