"""The command as a process: what is printed, what ends it, and a full disk."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NETWORKS = """
import sys
import numpy as np

print("the module prints")


def prints(x, W1, b1, W2, b2):
    print("the network prints")
    return np.maximum(x @ W1 + b1, 0) @ W2 + b2


def ends(x, W1, b1, W2, b2):
    sys.exit(0)
"""


def command(*words: str, cwd: Path, out: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """`portable-ffn` in a process of its own."""
    started = [sys.executable, "-m", "portable_ffn", *words]
    return subprocess.run(started, cwd=cwd, stdout=out, stderr=subprocess.PIPE, text=True, check=False)


CHECK = ("--backend", "numpy", "--dtype", "float64", "--json")


def test_what_a_network_prints_is_not_among_the_json(tmp_path):
    (tmp_path / "networks.py").write_text(NETWORKS)
    done = command("check", "--ffn", "networks:prints", *CHECK, cwd=tmp_path)
    assert json.loads(done.stdout)["passed"]
    assert done.returncode == 0
    assert "the network prints" in done.stderr
    assert "the module prints" in done.stderr


def test_a_network_that_ends_the_process_has_not_passed(tmp_path):
    (tmp_path / "networks.py").write_text(NETWORKS)
    done = command("check", "--ffn", "networks:ends", *CHECK, cwd=tmp_path)
    assert {row["status"] for row in json.loads(done.stdout)["rows"]} == {"error"}
    assert done.returncode == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a full device is Linux's")
def test_a_full_disk_is_no_difference(tmp_path):
    with open("/dev/full", "w") as full:
        done = command("backends", "--json", cwd=tmp_path, out=full.fileno())
    assert done.returncode == 2
    assert done.stderr.strip() == "portable-ffn backends: the output can't be written: No space left on device"


def test_a_seed_is_no_negative_number(capsys):
    from portable_ffn.__main__ import main

    with pytest.raises(SystemExit) as raised:
        main(["check", "--seed", "-1"])
    assert raised.value.code == 2
    assert "must be a whole number, zero or more, got '-1'" in capsys.readouterr().err


def test_a_module_that_ends_the_process_was_not_checked(tmp_path, monkeypatch, capsys):
    from portable_ffn.__main__ import main

    (tmp_path / "ending.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    assert main(["check", "--ffn", "ending:network"]) == 2
    assert "ending can't be imported: SystemExit" in capsys.readouterr().err
