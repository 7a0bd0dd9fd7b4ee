"""Where NumPy has no bfloat16, each message names the extra that brings it."""

import sys

import numpy as np
import pytest

from portable_ffn import Weights, init_weights
from portable_ffn.__main__ import main
from portable_ffn.checkpoint import CheckpointError, load, save

EXTRA = 'pip install "portable-ffn\\[checkpoint\\]"'


def test_a_checkpoint(tmp_path, monkeypatch):
    pytest.importorskip("ml_dtypes", reason="a file of bfloat16 is written with it")
    save(tmp_path / "w.safetensors", init_weights(4, 8, dtype="bfloat16"), activation="relu")
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(CheckpointError, match=f"bfloat16 needs ml_dtypes, which is not installed; {EXTRA}"):
        load(tmp_path / "w.safetensors")


def test_a_cast(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match=f"got bfloat16; ml_dtypes adds it: {EXTRA}"):
        Weights(np.ones((2, 2)), None, np.ones((2, 2)), None).to(dtype="bfloat16")


def test_a_check(monkeypatch, capsys):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "ml_dtypes" else find(name))
    assert main(["check", "--backend", "numpy", "--dtype", "bfloat16"]) == 2
    assert 'for bfloat16 pip install "portable-ffn[checkpoint]"' in capsys.readouterr().err
