"""What a report draws and how it can be had again: the shape of an activation, errors as dots, a program that runs."""

import json
import math
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from portable_ffn import ClippedGate, feed_forward
from portable_ffn.testing import Report, check
from portable_ffn.testing._report.html import page
from portable_ffn.testing._report.plot import ticks
from portable_ffn.testing._report.run import run_of
from portable_ffn.testing._report.script import script

MINE = """
import numpy as np

def network(x, W1, b1, W2, b2):
    return np.maximum(np.asarray(x) @ np.asarray(W1) + np.asarray(b1), 0) @ np.asarray(W2)
"""


def tanh_for_exact(*arrays):
    return feed_forward(*arrays, activation="gelu_tanh")


@pytest.fixture(scope="module")
def wrong():
    return check(tanh_for_exact, activation="gelu", backends="numpy", dtypes=["float64", "float32"])


def test_the_curve_is_the_activation(wrong):
    (curve,) = wrong.curves
    x = np.array(curve.x)
    assert np.allclose(curve.meant, feed_forward(x[:, None], *ones(), activation="gelu")[:, 0], rtol=0, atol=1e-15)
    assert np.allclose(curve.found, feed_forward(x[:, None], *ones(), activation="gelu_tanh")[:, 0], rtol=0, atol=1e-15)
    assert max(abs(a - b) for a, b in zip(curve.found, curve.meant, strict=True)) == pytest.approx(4.73e-4, rel=1e-2)


def ones():
    return np.ones((1, 1)), np.zeros(1), np.ones((1, 1)), np.zeros(1)


def test_a_gated_network_has_a_curve_too():
    gate = ClippedGate(7.0, 1.702, 1.0)
    wrong = ClippedGate(7.0, 1.0, 1.0)
    report = check(
        partial(feed_forward, activation=wrong), activation=gate, gated=True, backends="numpy", dtypes="float64"
    )
    assert "gated" in report.curves[0].network
    assert "differs by up to" in page(report)


def test_a_fault_elsewhere_leaves_the_curve_as_it_is():
    def lost(x, W1, b1, W2, b2):
        return feed_forward(x, W1, b1, W2, None)

    report = check(lost, backends="numpy", dtypes="float64")
    assert "the fault is elsewhere than in the bend" in page(report)


def test_a_network_that_passes_has_no_pictures():
    report = check(feed_forward, backends="numpy", dtypes="float64", cases=["curve", "ordinary"])
    assert report.curves == ()
    assert "<svg" not in page(report)
    assert "See it again" not in page(report)


def test_a_network_that_can_take_no_single_unit_has_no_curve():
    def picky(x, W1, b1, W2, b2):
        if W1.shape == (1, 1):
            raise ValueError("too small for my tiles")
        return feed_forward(x, W1, b1, W2, None)

    report = check(picky, backends="numpy", dtypes="float64", cases=["curve", "ordinary"])
    assert report.curves == ()
    assert not report.passed


def test_every_row_that_compared_is_a_dot(wrong):
    source = page(wrong)
    compared = [row for row in wrong.rows if not math.isnan(row.worst)]
    assert source.count('class="dot-') == len(compared)
    assert source.count('class="dot-fail"') == sum(row.status == "fail" for row in compared)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_the_smallest_input_is_a_program_that_runs(dtype, tmp_path):
    """It says by how much the network is off, as the row does."""
    (tmp_path / "mine.py").write_text(MINE)
    namespace = {"__name__": "mine"}
    exec(MINE, namespace)
    report = check(namespace["network"], backends="numpy", dtypes=dtype)
    program = script(report.failures(), report.run)
    assert "from mine import network" in program
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    off = float(done.stdout.split("off by")[1].split()[0])
    assert off > 1.0
    assert off == pytest.approx(
        min((row for row in report.failures() if row.case in program), key=len_of).worst, rel=0.5
    )


def len_of(row):
    return sum(array.size for array in (row.example.inputs.x, *row.example.inputs.weights) if array is not None)


def test_a_report_names_what_was_checked(wrong):
    assert wrong.subject.startswith("tests.testing.test_pictures.tanh_for_exact (")
    assert "test_pictures.py:" in wrong.subject
    content = json.loads(wrong.to_json())
    assert content["subject"] == wrong.subject
    assert content["run"]["activation"] == "gelu"
    assert {"portable_ffn", "Python", "date", "seed"} <= set(content["run"])
    assert wrong.subject.split(" (")[0] in page(wrong)


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (partial(feed_forward, activation="silu"), "portable_ffn.feed_forward with activation='silu' ("),
        (lambda x, W1, b1, W2, b2: x, "<lambda>"),
        (np.add, "ufunc"),
    ],
)
def test_subjects_of_all_kinds(fn, says):
    assert says in run_of(fn).subject


def test_a_report_in_a_notebook(wrong):
    assert len(repr(wrong)) < 200
    assert wrong._repr_html_().startswith("<iframe srcdoc=")
    assert "sandbox" in wrong._repr_html_()
    assert repr(Report(())) == "<Report of nothing: no row was run>"


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-6, 6), (1e-9, 3e-9), (-1e5, 1e6), (0.1, 0.11)])
def test_ticks_are_round_and_few(low, high):
    found = ticks(low, high)
    assert 1 <= len(found) <= 6
    assert all(low <= value <= high * (1 + 1e-12) for value in found)


def test_errors_that_differ_in_numbers_are_one_card():
    def picky(x, W1, b1, W2, b2):
        raise ValueError(f"no kernel for {x.shape}")

    report = check(picky, backends="numpy", dtypes=["float64", "float32"])
    looked = page(report).split("Where to look")[1].split("<h2>")[0]
    assert looked.count('class="card"') == 1


def test_a_network_for_numpy_alone_is_told_in_two_lines(require):
    """On all libraries at once: that it raises elsewhere is one fact, not one for each library and case."""
    require("torch")
    require("jax")

    def numpy_alone(x, W1, b1, W2, b2):
        if type(x) is not np.ndarray:
            raise TypeError(f"numpy arrays only, got {type(x).__name__} of {type(x).__module__}")
        return feed_forward(x, W1, b1, W2, b2)

    report = check(numpy_alone, backends=["numpy", "torch", "jax"], cases=["curve", "ordinary"], dtypes="float64")
    lines = str(report).splitlines()
    assert lines[0].startswith("not passed: 2 pass, ")
    assert "raises in every row on torch, jax, and runs on numpy" in lines[2]
    assert lines[3].startswith("  first: torch")
    assert lines[4].startswith("library")
    looked = page(report).split("Where to look")[1].split("<h2>")[0]
    assert looked.count('class="card"') == 1
