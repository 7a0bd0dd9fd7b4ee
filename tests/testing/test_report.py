"""A report in words, as JSON and as a page, and when it has passed."""

import json

import numpy as np
import pytest

from portable_ffn.testing import Report
from tests.testing.networks import network, numpy_only, row


def test_a_report_in_words():
    report = Report(
        (row(), row(worst=0.5), row("fail", 3.0, dtype="float32", message="too far", causes=("b1 missing",)))
    )
    text = str(report)
    assert "numpy    cpu     float64  0.5          pass\n" in text
    assert text.endswith("numpy    cpu     float32  3            fail (1 of 1)")
    assert "numpy cpu float32, relu, curve: too far\n  because: b1 missing\n" in text
    assert text.startswith("not passed: 2 pass, 1 fail\n")


def test_many_failures_are_counted_and_not_listed():
    text = str(Report(tuple(row("fail", 3.0, case=f"case {n}", message="too far") for n in range(40))))
    assert text.count("too far") == 1
    assert (
        "\n  as in 39 rows more: numpy cpu float64; in case 1, case 2, case 3, case 4, case 5, case 6 and 33 more\n"
        in text
    )
    text = str(Report(tuple(row("fail", 3.0, message="too far", causes=(f"cause {n}",)) for n in range(40))))
    assert text.count("because: cause") == 12
    assert "... and 28 rows more" in text


def test_rows_of_one_cause_stand_together():
    """What explains most rows is told first, with the causes that all of them share."""
    causes = [("b2 missing",), ("b1 missing", "scaled"), ("b1 missing",), ("scaled", "b1 missing"), ()]
    rows = [row("fail", 3.0, case=f"case {n}", message=f"wrong {n}", causes=told) for n, told in enumerate(causes)]
    raised = [row("error", np.nan, case=f"case {n}", message=f"ValueError: of {n} numbers") for n in (7, 8)]
    lines = str(Report((*rows, *raised))).splitlines()[1:-2]
    assert lines == [
        "numpy cpu float64, relu, case 1: wrong 1",
        "  because: b1 missing",
        "  as in 2 rows more: numpy cpu float64; in case 2, case 3",
        "numpy cpu float64, relu, case 7: ValueError: of 7 numbers",
        "  as in 1 row more: numpy cpu float64; in case 8",
        "numpy cpu float64, relu, case 0: wrong 0",
        "  because: b2 missing",
        "numpy cpu float64, relu, case 4: wrong 4",
    ]


@pytest.mark.parametrize(
    ("statuses", "passed"),
    [
        (["pass"], True),
        (["pass", "gap"], True),
        (["gap"], False),
        (["pass", "fail"], False),
        (["pass", "error"], False),
        ([], False),
    ],
)
def test_when_a_report_has_passed(statuses, passed):
    assert Report(tuple(row(status) for status in statuses)).passed is passed


def test_a_report_as_json():
    report = Report((row(), row("fail", np.inf), row("error", np.nan, message="é")), {"numpy": "2"}, {"cupy": "no"})
    document = json.loads(report.to_json(), parse_constant=pytest.fail)
    assert document["passed"] is False
    assert [entry["worst"] for entry in document["rows"]] == [0.25, "inf", None]
    assert document["rows"][0]["gated"] is False
    assert (document["versions"], document["absent"]) == ({"numpy": "2"}, {"cupy": "no"})


def test_a_report_as_a_page(tmp_path):
    report = Report((row("fail", 3.0, message="1 < 2 & <b>", case="curve"),))
    report.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "1 &lt; 2 &amp; &lt;b&gt;" in page
    assert page.lower().startswith("<!doctype html>")


def test_a_page_in_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"the folder .*none doesn't exist; make it first"):
        Report((row(),)).to_html(tmp_path / "none" / "page.html")


def test_progress_sees_each_row():
    seen = []
    report = numpy_only(network, progress=seen.append)
    assert tuple(seen) == report.rows
