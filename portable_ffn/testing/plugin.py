"""A pytest plugin: one line in a suite checks a network on every backend, a test for each row.

    def test_my_network(check_feed_forward):
        check_feed_forward(my_network, activation="gelu")

A test that asks for the fixture `check_feed_forward` is run once for each backend, device, dtype and case that
`portable_ffn.testing.check` would run, and `@pytest.mark.feed_forward(backends="torch", dtypes="float32")` narrows
that down. Where no test asks for it nothing happens, and no array library is imported.
"""

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from portable_ffn.testing._report.report import Report


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "feed_forward(backends=, devices=, dtypes=, cases=): what check_feed_forward runs, one or several of each",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each row."""
    if "check_feed_forward" not in metafunc.fixturenames:
        return
    from portable_ffn.testing._backends.select import select
    from portable_ffn.testing._inputs.cases import chosen, due

    asked: dict[str, Any] = {}
    for marker in metafunc.definition.iter_markers("feed_forward"):
        asked = {**marker.kwargs, **asked}
    cases = chosen(asked.pop("cases", None))
    places = select(asked.pop("backends", None), asked.pop("devices", None), asked.pop("dtypes", None))
    if asked:
        raise pytest.UsageError(f"the marker feed_forward takes backends, devices, dtypes and cases, got {list(asked)}")
    rows = [
        pytest.param((place.backend.name, place.device, dtype, case.name), id=_identifier(place, dtype, case))
        for place in places.places
        for dtype in place.dtypes
        for case in cases
        if due(case, place.backend.slow, dtype, place.dtypes)
    ]
    rows += [pytest.param((name, reason), id=name) for name, reason in places.missing.items()]
    metafunc.parametrize("check_feed_forward", rows, indirect=True)


def _identifier(place: Any, dtype: str, case: Any) -> str:
    """A row in a word, for the name of its test."""
    return "-".join((place.backend.name, place.device, dtype, case.name.replace(" ", "_")))


@pytest.fixture
def check_feed_forward(request: pytest.FixtureRequest) -> Callable[..., "Report"]:
    """`check_feed_forward(fn, *, activation="relu", gated=False, ...)` checks the row that this test is for.

    It takes what `portable_ffn.testing.check` takes besides backends, devices, dtypes and cases. A row outside the
    bound fails, a known limit of the library is an expected failure, a backend that was asked for and is missing fails.
    What the network doesn't take, and what is not checked therefore, is a warning.
    """
    if len(request.param) == 2:
        pytest.fail("{} was asked for, but {}".format(*request.param), pytrace=False)
    backend, device, dtype, case = request.param

    def check_row(fn: Callable[..., Any], **network: Any) -> "Report":
        from portable_ffn.testing._check import check

        report = check(fn, backends=backend, devices=device, dtypes=dtype, cases=case, **network)
        for row in report.failures():
            because = f"\nbecause: {row.cause}" if row.cause else ""
            pytest.fail(f"{row.message}{because}", pytrace=False)
        for note in report.notes:
            warnings.warn(note, stacklevel=2)
        for row in report.rows:
            if row.status == "gap":
                pytest.xfail(row.message)
        return report

    return check_row
