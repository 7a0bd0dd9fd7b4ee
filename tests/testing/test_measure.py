"""How far an answer is off: the worst error and its place, and what can't be compared at all."""

import numpy as np
import pytest

from portable_ffn.testing import BACKENDS, assert_agrees, compare

X = np.zeros((2, 3))
Y = np.array([[1.0, 2.0, 3.0], [-4.0, 0.0, 1e-6]])
BOUND = 0.25 * np.ones((2, 3))


def test_the_worst_error_and_its_place():
    got = Y.copy()
    got[1, 0] += 0.125
    found = compare(got, X, Y, BOUND)
    assert (found.worst, found.place, found.fault) == (0.5, (1, 0), "")
    assert assert_agrees(got, X, Y, BOUND) == 0.5


@pytest.mark.parametrize(
    ("got", "match"),
    [
        (Y.tolist(), r"must be an array of numpy as x is, got list"),
        (None, r"must be an array of numpy as x is, got None"),
        (Y.astype(np.float32), r"must have dtype float64, got float32"),
        (Y[0], r"must have shape \(2, 3\), got \(3,\)"),
        (Y[None], r"must have shape \(2, 3\), got \(1, 2, 3\)"),
        (Y + 0.3, r"must be .* within 0\.25 at \(0, 0\), got 1\.3: 1\.2 times the bound; 6 of 6 values are outside"),
        (np.where(Y == 0, np.nan, Y), r"must be 0 within 0\.25 at \(1, 1\), got nan: inf times the bound"),
        (np.where(Y == 0, np.inf, Y), r"must be 0 within 0\.25 at \(1, 1\), got inf"),
    ],
    ids=str,
)
def test_what_does_not_agree(got, match):
    with pytest.raises(AssertionError, match=match):
        assert_agrees(got, X, Y, BOUND)


def test_an_answer_of_another_library():
    import torch

    with pytest.raises(AssertionError, match=r"must be an array of numpy as x is, got torch"):
        assert_agrees(torch.from_numpy(Y), X, Y, BOUND)


def test_an_answer_on_another_device():
    backend = BACKENDS["array-api-strict"]
    x, got = backend.put(X, device="device1"), backend.put(Y, device="device2")
    with pytest.raises(AssertionError, match=r"must lie on device1, got device2"):
        assert_agrees(got, x, Y, BOUND)


@pytest.mark.parametrize(
    ("value", "expected", "bound", "agrees"),
    [
        (np.nan, np.nan, 0.0, True),
        (np.nan, np.nan, 1.0, True),
        (1.0, np.nan, 1.0, False),
        (np.inf, np.inf, 0.0, True),
        (-np.inf, np.inf, 1.0, False),
        (np.nan, np.inf, 1.0, False),
        (1e300, np.inf, 1.0, False),
        (np.nan, 1.0, np.inf, True),
        (np.inf, 1.0, np.inf, True),
        (-7.0, 1.0, np.inf, True),
        (1.0, 1.0, 0.0, True),
        (np.nextafter(1.0, 2.0), 1.0, 0.0, False),
        (-0.0, 0.0, 0.0, True),
        (1.25, 1.0, 0.25, True),
        (np.nextafter(1.25, 2.0), 1.0, 0.25, False),
    ],
)
def test_numbers_that_are_none(value, expected, bound, agrees):
    found = compare(np.array([value]), np.zeros(1), np.array([expected]), np.array([bound]))
    assert found.agrees is agrees
    assert found.worst <= 1.0 if agrees else found.worst > 1.0


def test_nothing_to_compare_agrees():
    empty = np.zeros((0, 3))
    found = compare(empty, empty, empty, empty)
    assert (found.worst, found.place, found.fault) == (0.0, None, "")


def test_the_meta_device_has_shapes_only():
    import torch

    x, got = torch.zeros(2, 3, device="meta"), torch.zeros(2, 4, device="meta")
    with pytest.raises(AssertionError, match=r"must have shape \(2, 3\), got \(2, 4\)"):
        assert_agrees(got, x, Y, BOUND, valueless=True)
    assert np.isnan(compare(x, x, Y, BOUND, valueless=True).worst)
