"""Nothing is named that isn't so: faults of the planted table, and what no table has, on some of its rows."""

import pytest

from portable_ffn.testing import check
from tests.testing.planted import PLANTED

# A few of each kind in one dtype; ci/faults.py runs all of them in every dtype.
FAST = PLANTED[::4]
UNKNOWN = [planted for planted in PLANTED if planted.says is None]


def causes_of(planted, dtype):
    report = check(planted.network, **planted.meant, backends="numpy", dtypes=dtype)
    failed = [row for row in report.rows if row.status == "fail"]
    assert failed, "not caught"
    return failed, {cause for row in failed for cause in row.causes}


@pytest.mark.parametrize("planted", [one for one in FAST if one.says is not None], ids=lambda one: one.name)
def test_what_is_planted_is_named_and_nothing_that_it_is_not(planted):
    _, causes = causes_of(planted, planted.dtypes[-1] if len(planted.dtypes) < 2 else "float32")
    assert any(planted.says in cause for cause in causes), causes


@pytest.mark.parametrize("planted", UNKNOWN, ids=lambda one: one.name)
def test_what_nothing_explains_is_not_explained(planted):
    """And it is said how many faults were tried, and which comes nearest."""
    failed, causes = causes_of(planted, "float64")
    assert not causes
    assert any("known faults explains it" in row.message for row in failed)
