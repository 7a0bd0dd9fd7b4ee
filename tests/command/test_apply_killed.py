"""`apply` killed at every call to the system that matters: what is there is whole, and the next run ends well."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked to be killed")


def killed(*arguments):
    """What the program of that name found, in a process of its own that no other test's threads are in."""
    program = [sys.executable, "-m", "tests.command.kill_points", *arguments]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_npy_at_every_call():
    found = killed("--kinds", "npy", "fortran")
    assert found["wrong"] == []
    assert found["taken"] >= 200
    calls = {point.split()[1] for point in found["points"]}
    assert calls >= {"open", "flock", "write", "fsync", "ftruncate", "fchmod", "replace", "unlink", "close"}


@pytest.mark.slow
def test_zarr_at_every_third_call():
    pytest.importorskip("zarr", reason="zarr is not installed")
    pytest.importorskip("dask", reason="dask is not installed")
    found = killed("--kinds", "zarr", "--every", "3")
    assert found["wrong"] == []
    assert found["taken"] >= 30
