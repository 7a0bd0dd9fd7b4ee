"""Where NumPy has no bfloat16, each message names the extra that brings it."""

import re
import subprocess
import sys

import pytest

from portable_ffn import init_weights
from portable_ffn.__main__ import main
from portable_ffn.checkpoint import CheckpointError, load, save

EXTRA = 'pip install "portable-ffn\\[checkpoint\\]"'


def test_a_checkpoint(tmp_path, monkeypatch):
    pytest.importorskip("ml_dtypes", reason="a file of bfloat16 is written with it")
    save(tmp_path / "w.safetensors", init_weights(4, 8, dtype="bfloat16"), activation="relu")
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(CheckpointError, match=r"bfloat16 needs ml_dtypes; pip install portable-ffn\[checkpoint\]"):
        load(tmp_path / "w.safetensors")


def test_a_cast():
    """In a process of its own: once imported, ml_dtypes has told NumPy of its names."""
    program = (
        "import sys; sys.modules['ml_dtypes'] = None\n"
        "import numpy as np, portable_ffn as pf\n"
        "try: pf.init_weights(2, 2).to(dtype='bfloat16')\n"
        "except TypeError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert re.search(f"got bfloat16; ml_dtypes adds it: {EXTRA}", done.stdout)


def test_a_check(monkeypatch, capsys):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "ml_dtypes" else find(name))
    assert main(["check", "--backend", "numpy", "--dtype", "bfloat16"]) == 2
    assert 'for bfloat16 pip install "portable-ffn[checkpoint]"' in capsys.readouterr().err
