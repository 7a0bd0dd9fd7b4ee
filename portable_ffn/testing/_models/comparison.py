"""The comparison of two models: what was found as text, as JSON, as a page."""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from portable_ffn.checkpoint._visible import visible
from portable_ffn.testing._models.layer import Compared
from portable_ffn.testing._models.page import page
from portable_ffn.testing._report.page import write
from portable_ffn.testing._report.rows import json_numbers
from portable_ffn.testing._report.text import aligned, number


class Comparison(Compared):
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

    __slots__ = ()

    def to_json(self) -> str:
        """One JSON document: passed, a, b, first (its number among `layers`), layers, only_a, only_b, skipped.

        A number is null where it is NaN, and a string where it is infinite.
        """
        first = None if self.first is None else self.layers.index(self.first)
        content = {"passed": self.passed, "first": first, **asdict(self)}
        for record, layer in zip(content["layers"], self.layers, strict=True):
            record["cause"] = layer.cause
            if record["example"] is not None:
                # The arrays of a whole case are for the report's files.
                del record["example"]["inputs"]
        return json.dumps(json_numbers(content), indent=1, allow_nan=False)

    def to_html(self, path: str | Path) -> None:
        """Write one page, complete in itself, that shows where to look.

        Raises OSError where it can't be written, with the folder's name where that doesn't exist.
        """
        write(path, page(self))

    def __str__(self) -> str:
        table: list[tuple[str, ...]] = [("layer", "dtype", "worst/bound", "median/bound", "verdict")]
        for layer in self.layers:
            verdict = {"pass": "agrees", "fail": "DIFFERS", "error": " ".join(layer.message.split())}[layer.status]
            if layer.status == "pass" and layer.message:
                verdict += f" ({layer.message})"
            table.append((layer.title, layer.dtype, number(layer.worst), number(layer.median), verdict))
        lines = [f"A: {self.a}", f"B: {self.b}", *aligned(table)]
        lines += [f"{layer.title}: {layer.loss.says}" for layer in self.layers if layer.loss is not None]
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
        return visible("\n".join(lines), lines=True)
