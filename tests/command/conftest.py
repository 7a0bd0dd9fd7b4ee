"""Fixtures of this folder."""

import pytest

from portable_ffn.command._apply import memory as _memory
from portable_ffn.command._apply import stream as _stream
from tests.command.applied import write_model

# Lines for type checkers, which are never run.
collect_ignore = ["typed_examples.py"]


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path / "model")


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 16 rows, each made safe by itself."""
    monkeypatch.setattr(_memory, "MOST_ROWS", 16)
    monkeypatch.setattr(_stream, "SAFE_EVERY", 0.0)
    monkeypatch.setattr(_stream, "SAFE_SHARE", 0)
