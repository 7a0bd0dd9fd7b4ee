"""A run that was interrupted, killed or out of room, and the one that goes on with it."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from portable_ffn.__main__ import main
from portable_ffn.command._apply.npy_target import NpyTarget
from portable_ffn.testing import assert_agrees
from tests.command.applied import command, expected, left, refused, rows, run, write_model

safetensors = pytest.importorskip("safetensors.numpy", reason="writing checkpoints needs safetensors")
LIMITED = """
import resource, sys
from portable_ffn.__main__ import main
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(os.name != "posix", reason="a limit on the size of files is POSIX's")
def test_no_room_for_the_output(tmp_path, model):
    np.save(tmp_path / "x.npy", rows(4000, 8))
    (tmp_path / "y.npy").write_bytes(b"what was there before")
    arguments = command(model, tmp_path / "x.npy", tmp_path / "y.npy")
    done = subprocess.run([sys.executable, "-c", LIMITED, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert re.fullmatch(r"portable-ffn apply: .*y\.npy: can't be written: File too large\n", done.stderr)
    assert (tmp_path / "y.npy").read_bytes() == b"what was there before"
    assert left(tmp_path) == ["y.npy"]


def test_a_disk_that_fills_up_on_the_way(tmp_path, model, capsys, small_blocks, monkeypatch):
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, rows(200, 8))
    with monkeypatch.context() as patched:
        stop_at(patched, 96, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        assert "y.npy: can't be written: No space left on device" in refused(capsys, model, x, y)
    assert left(tmp_path) == ["y.npy.journal", "y.npy.partial"]
    assert run(capsys, model, x, y)[1]["rows_resumed"] == 96
    assert_agrees(np.load(y), np.load(x), *expected(model, np.load(x)))


def stop_at(patched, row, error):
    """Have the writing of that row's block fail."""
    write = NpyTarget.write

    def failing(self, start, block):
        if start >= row:
            raise error
        write(self, start, block)

    patched.setattr(NpyTarget, "write", failing)


@pytest.fixture
def interrupted(tmp_path, model, capsys, small_blocks, monkeypatch):
    """A run that was interrupted after 96 of 200 rows, and the bytes that a whole run makes."""
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, rows(200, 8))
    assert main(command(model, x, tmp_path / "whole.npy")) == 0
    y.write_bytes(b"what was there before")
    with monkeypatch.context() as patched:
        stop_at(patched, 96, KeyboardInterrupt())
        assert main(command(model, x, y)) == 130
    assert "interrupted; the same command goes on where this stood" in capsys.readouterr().err
    assert y.read_bytes() == b"what was there before"
    assert left(tmp_path) == ["y.npy", "y.npy.journal", "y.npy.partial"]
    return x, y, (tmp_path / "whole.npy").read_bytes()


def test_an_interrupted_run_goes_on(interrupted, tmp_path, model, capsys):
    x, y, whole = interrupted
    assert run(capsys, model, x, y)[1]["rows_resumed"] == 96
    assert y.read_bytes() == whole
    assert left(tmp_path) == ["y.npy"]


def test_a_torn_line_of_the_journal_counts_for_nothing(interrupted, model, capsys):
    x, y, whole = interrupted
    journal = y.with_name("y.npy.journal")
    journal.write_bytes(journal.read_bytes()[:-4])
    assert run(capsys, model, x, y)[1]["rows_resumed"] == 80
    assert y.read_bytes() == whole


@pytest.mark.parametrize("content", [b"", b"{", b'{"portable_ffn": "ap', b'{"key": 1, "block": 16}\n[16, 1]\n'])
def test_a_journal_of_nonsense(interrupted, model, capsys, content):
    x, y, whole = interrupted
    y.with_name("y.npy.journal").write_bytes(content)
    assert run(capsys, model, x, y)[1]["rows_resumed"] == 0
    assert y.read_bytes() == whole


def test_rows_that_were_changed_are_made_again(interrupted, model, capsys):
    x, y, whole = interrupted
    partial = y.with_name("y.npy.partial")
    content = bytearray(partial.read_bytes())
    content[128 + 50 * 8 * 4] ^= 1
    partial.write_bytes(content)
    assert run(capsys, model, x, y)[1]["rows_resumed"] == 48
    assert y.read_bytes() == whole


def test_a_partial_file_that_is_gone(interrupted, model, capsys):
    x, y, whole = interrupted
    y.with_name("y.npy.partial").unlink()
    assert run(capsys, model, x, y)[1]["rows_resumed"] == 0
    assert y.read_bytes() == whole


@pytest.mark.parametrize("changed", ["input", "weights", "dtype", "memory"])
def test_another_run_is_not_gone_on_with(interrupted, tmp_path, model, capsys, changed):
    x, y, _ = interrupted
    more = {"dtype": ["--dtype", "float64"], "memory": ["--memory", "200MiB"]}.get(changed, [])
    if changed == "input":
        np.save(x, rows(200, 8, seed=1))
    if changed == "weights":
        write_model(model, layers=3)
    _, document, told = run(capsys, model, x, y, *more)
    assert document["rows_resumed"] == 0
    assert re.match(rf"y\.npy: an earlier run was not finished; begun anew, since this has changed: {changed}\n", told)
    dtype = "float64" if changed == "dtype" else "float32"
    wanted = expected(model, np.load(x).astype(dtype), dtype=dtype)
    assert_agrees(np.load(y), np.load(x), *wanted, dtype=dtype)


def test_another_layer_is_not_gone_on_with(interrupted, model, capsys):
    x, y, _ = interrupted
    assert run(capsys, model, x, y, "--layer", 1)[1]["rows_resumed"] == 0
    assert_agrees(np.load(y), np.load(x), *expected(model, np.load(x), layer=1))


def test_a_refused_run_leaves_the_unfinished_one(interrupted, model, capsys):
    x, y, whole = interrupted
    assert "--memory must be" in refused(capsys, model, x, y, "--memory", "1MiB")
    assert run(capsys, model, x, y)[1]["rows_resumed"] == 96
    assert y.read_bytes() == whole


def test_two_runs_at_once(interrupted, model, capsys):
    fcntl = pytest.importorskip("fcntl", reason="locks of files are POSIX's")
    x, y, whole = interrupted
    with y.with_name("y.npy.journal").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert re.search(r"y\.npy: another run is writing it; wait for that one", refused(capsys, model, x, y))
    assert run(capsys, model, x, y)[0] == 0
    assert y.read_bytes() == whole


@pytest.mark.slow
def test_a_killed_run_goes_on(tmp_path):
    """Kill -9 in the middle: nothing looks finished, and the next run ends with the bytes of a whole one."""
    model = write_model(tmp_path / "model", 64, 256, layers=1)
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, rows(120_000, 64))
    start = [sys.executable, "-m", "portable_ffn", *command(model, x, y), "--json"]
    killed = subprocess.Popen(start, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        journal = tmp_path / "y.npy.journal"
        while not (journal.exists() and journal.read_bytes().count(b"\n") >= 2):
            assert killed.poll() is None, "the run ended before it could be killed; give it more rows"
            assert time.monotonic() < deadline
            time.sleep(0.005)
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait(10)
    assert killed.returncode == -signal.SIGKILL
    assert left(tmp_path) == ["y.npy.journal", "y.npy.partial"]
    document = json.loads(subprocess.run(start, capture_output=True, check=True, timeout=120).stdout)
    assert 0 < document["rows_resumed"] < 120_000
    whole = tmp_path / "whole.npy"
    start[start.index(str(y))] = str(whole)
    subprocess.run(start, capture_output=True, check=True, timeout=120)
    assert y.read_bytes() == whole.read_bytes()
    part = np.load(y, mmap_mode="r")[::997]
    assert_agrees(np.array(part), part, *expected(model, np.load(x, mmap_mode="r")[::997]))
