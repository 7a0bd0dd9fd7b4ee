"""Fixtures of this folder."""

import pytest

from tests.testing.models import bert


@pytest.fixture(scope="module")
def a(tmp_path_factory):
    return bert(tmp_path_factory.mktemp("models") / "a")
