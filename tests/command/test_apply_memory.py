"""How much memory `apply` takes, and how it is told how much it may."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from portable_ffn.__main__ import main
from portable_ffn.command._apply import memory as _memory
from portable_ffn.testing import assert_agrees
from tests.command.applied import command, expected, left, refused, rows, run, write_model

safetensors = pytest.importorskip("safetensors.numpy", reason="writing checkpoints needs safetensors")


@pytest.mark.parametrize("size", ["much", "-5MiB", "0", "nan", "5 parsecs", ""])
def test_a_size_that_is_none(tmp_path, model, capsys, size):
    with pytest.raises(SystemExit) as stopped:
        main(command(model, tmp_path / "x.npy", tmp_path / "y.npy", f"--memory={size}"))
    assert stopped.value.code == 2
    assert "a size must be a number above zero" in capsys.readouterr().err


def test_sizes():
    assert [_memory.parse_size(text) for text in ("256MiB", "1.5 GB", "7", "1kb", "2GiB")] == [
        2**28,
        1_500_000_000,
        7,
        1000,
        2**31,
    ]
    assert _memory.in_words(5) == "5 B"
    assert _memory.in_words(1.01 * 2**20) == "1.1 MiB"


GROWTH = """
import sys
from portable_ffn.__main__ import main

def memory(kind):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(kind + ":")) * 1024

warm, big, limit = sys.argv[1].split("|"), sys.argv[2].split("|"), sys.argv[3]
assert main(warm) == 0
before = memory("VmRSS")
assert main([*big, "--memory", limit]) == 0
print("\\ngrown", memory("VmHWM") - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the peak is read from Linux's /proc")
def test_no_more_memory_than_it_says(tmp_path):
    """On an input several times the limit; what Python and its libraries take was taken by a run before."""
    model, limit = write_model(tmp_path / "model", 128, 1024, layers=1), "36MiB"
    np.save(tmp_path / "few.npy", rows(3, 128))
    mapped = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float64, shape=(100_000, 128))
    mapped[::1000] = rows(100, 128)
    del mapped
    warm = "|".join(command(model, tmp_path / "few.npy", tmp_path / "few_y.npy"))
    big = "|".join(command(model, tmp_path / "x.npy", tmp_path / "y.npy"))
    program = [sys.executable, "-c", GROWTH, warm, big, limit]
    done = subprocess.run(program, capture_output=True, text=True, timeout=200, check=True)
    grown = int(done.stdout.split()[-1])
    assert (tmp_path / "y.npy").stat().st_size > 2 * _memory.parse_size(limit)
    assert grown <= _memory.parse_size(limit)


def test_too_little_memory_says_how_much(tmp_path, capsys):
    model = write_model(tmp_path / "model", 256, 4096, layers=1)
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, rows(40, 256))
    told = refused(capsys, model, x, y, "--memory", "30MiB")
    assert re.search(r"--memory must be more than 32\.\d MiB for the weights of encoder\.layer\.0", told)
    told = refused(capsys, model, x, y, "--memory", "32.05MiB")
    enough = re.search(r"--memory must be (32\.\d MiB) at least for these weights and one row, got 32\.1 MiB", told)
    assert left(tmp_path) == []
    assert run(capsys, model, x, y, "--memory", enough[1])[1]["rows_per_block"] < 64
    assert_agrees(np.load(y), np.load(x), *expected(model, np.load(x)))
