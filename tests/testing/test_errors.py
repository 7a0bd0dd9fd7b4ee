"""Errors of a network: told in their own words, once, with what explains them."""

import re

import numpy as np
import pytest

from portable_ffn.testing import check
from tests.testing.networks import in_place, network, one_axis_lost, swiglu


def test_writing_to_read_only_arrays_is_an_error_in_its_own_words():
    report = check(in_place, backends="numpy", dtypes="float64", cases="read-only")
    assert [(row.status, row.message) for row in report.rows] == [
        ("error", "ValueError: output array is read-only"),
    ]


def test_an_error_is_told_in_its_own_words():
    def broken(x, W1, b1, W2, b2):
        raise KeyError("my own mistake")

    report = check(broken, backends="numpy", dtypes="float64", cases="curve")
    (row,) = report.rows
    assert (row.status, row.message) == ("error", "KeyError: 'my own mistake'")
    assert "Traceback" not in str(report)


@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
def test_an_error_over_a_bias_of_none_says_why_it_is_none(backend, require):
    require(backend)

    def needs_biases(x, W1, b1, W2, b2):
        return (x @ W1 + b1) @ W2 + b2

    report = check(needs_biases, bias=False, activation="identity", backends=backend, dtypes="float32", cases="curve")
    (row,) = [row for row in report.rows if row.device in ("cpu", "cpu:0")]
    assert row.status == "error"
    assert row.message.endswith("(it was given None for b1, b2, since bias=False (--no-bias))")


def test_an_error_over_a_branch_of_none_says_why_it_is_none():
    report = check(swiglu, activation="silu", backends="numpy", dtypes="float64", cases="curve")
    assert "(it was given None for V, c, since gated=False; say gated=True (--gated) to have them)" in str(report)


def test_an_error_over_something_else_is_told_alone():
    def mistaken(x, W1, b1, W2, b2):
        raise ValueError("another mistake")

    report = check(mistaken, bias=False, backends="numpy", dtypes="float64", cases="curve")
    assert report.rows[0].message == "ValueError: another mistake"


def test_failures_and_errors_of_a_place_are_both_told():
    def both(x, W1, b1, W2, b2):
        if x.ndim == 1:
            raise ValueError("one axis")
        return 0 * network(x, W1, b1, W2, b2)

    report = check(both, backends="numpy", dtypes="float64", cases=["ordinary", "curve", "one axis"])
    assert report.summary()[0][-1] == "fail (2 of 3), error (1 of 3)"


def test_where_nothing_explains_a_difference_it_was_tried():
    def strange(x, W1, b1, W2, b2):
        return network(x, W1, b1, W2, b2) + np.sin(np.arange(x.size)).reshape(x.shape)

    report = check(strange, backends="numpy", dtypes="float64", cases=["ordinary", "curve"])
    for row in report.rows:
        assert row.cause == ""
        assert re.search(r"; none of the \d+ known faults explains it; the nearest is ",
                         row.message)  # fmt: skip
    shape = check(one_axis_lost, backends="numpy", dtypes="float64", cases="one axis").rows[0].message
    assert "known faults" not in shape


def test_one_fault_is_told_once():
    def without_b1(x, W1, b1, W2, b2):
        return network(x, W1, 0 * b1, W2, b2)

    report = check(without_b1, backends="numpy", dtypes=["float64", "float32"])
    assert len(report.failures()) > 20
    assert str(report).count("because: b1 missing") == 1
    assert str(report).count("the answer must be") <= 3
    others = re.search(r"as in (\d+) rows more: numpy cpu float64, numpy cpu float32; in .* and \d+ more", str(report))
    assert others
    assert int(others[1]) > 15
