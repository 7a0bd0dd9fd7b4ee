"""The report of a check: its findings as text, as JSON, as a page, as an error."""

import html
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from portable_ffn.checkpoint._visible import visible
from portable_ffn.testing._report.html import page
from portable_ffn.testing._report.page import write
from portable_ffn.testing._report.rows import Findings, Row, json_numbers
from portable_ffn.testing._report.text import counted, report_text, summary


class Report(Findings):
    """What a check found, and the ways to tell it.

    Attributes
    ----------
    rows : tuple of Row
    versions : dict
        Library -> version.
    absent : dict
        Backend -> why it was not run.
    networks : tuple of Network
        The networks that were run, from which `visible` says what can't be seen.
    notes : tuple of str
        What was not checked, and why.
    run : Run
        What was checked, and how it can be checked again.
    subject : str
        What was checked, by name.
    curves : tuple of Curve
        The shapes of the activations of networks that failed.
    strict : bool
        Whether a note, an array that the network doesn't take, is a failure.
    """

    __slots__ = ()

    def raise_if_failed(self) -> None:
        """Raise AssertionError with the report as its text unless all rows passed."""
        if not self.passed:
            raise AssertionError(str(self))

    def to_json(self) -> str:
        """One JSON document: subject, run, passed, rows, versions, absent, notes, unseen.

        A number is null where it is NaN, and the string "inf" or "-inf" where it is infinite: `worst` is null where no
        values were compared, "inf" where a NaN or an infinity is out of place. `unseen` lists for each network and
        dtype the faults that can't be seen there, with their effect in units of the bound.
        """
        rows = [json_numbers(_plain(row)) for row in self.rows]
        unseen = [
            {
                **{name: getattr(one, name) for name in ("activation", "gated", "bias", "dtype")},
                "faults": {fault: json_numbers(one.effects[fault]) for fault in one.unseen},
            }
            for one in self.visible()
        ]
        told = {"subject": self.subject, "run": dict(self.run.facts), "passed": self.passed, "rows": rows}
        rest = {"versions": self.versions, "absent": self.absent, "notes": self.notes, "unseen": unseen}
        return json.dumps({**told, **rest}, indent=1, allow_nan=False)

    def to_html(self, path: str | Path) -> None:
        """Write one page, complete in itself, that shows where to look.

        Raises OSError where it can't be written, with the folder's name where that doesn't exist.
        """
        write(path, page(self))

    def summary(self) -> list[tuple[str, str, str, str, str]]:
        """A line for each backend, device and dtype: these, the worst error over the bound, and the verdict."""
        return summary(self.rows)

    def __str__(self) -> str:
        return visible(report_text(self), lines=True)

    def __repr__(self) -> str:
        return visible(f"<Report of {self.subject or 'nothing'}: {counted(self.rows) or 'no row was run'}>")

    def _repr_html_(self) -> str:
        """The page inside a notebook, in a frame of its own so that neither's style touches the other's."""
        source = html.escape(page(self), quote=True)
        return f'<iframe srcdoc="{source}" style="width: 100%; height: 640px; border: 0" sandbox=""></iframe>'


def _plain(row: Row) -> dict[str, Any]:
    """A row as JSON tells it: the numbers of an example without the weights, the causes in a line as well."""
    example = None if row.example is None else asdict(replace(row.example, inputs=None))
    if example is not None:
        del example["inputs"]
    return {**asdict(replace(row, example=None)), "example": example, "cause": row.cause}
