"""What the site says about checking a network of one's own: its commands and its test, run as they stand there."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from portable_ffn.__main__ import main
from portable_ffn.testing._inputs.cases import CASES

PAGE = Path(__file__).parents[2].joinpath("docs", "use", "check.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.S)
BASH = "\n".join(re.findall(r"```bash\n(.*?)```", PAGE, re.S))
COMMANDS = re.findall(r"^(portable-ffn .*?)\s*(?:#.*)?$", BASH, re.M)
NETWORK = PYTHON[0][: PYTHON[0].index("report =")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the README's network as a module, and two models of which the other has one bias less."""
    (tmp_path / "mine.py").write_text(NETWORK)
    random = np.random.default_rng(0)
    tensors = {}
    for i in range(2):
        stem = f"bert.encoder.layer.{i}"
        tensors[f"{stem}.intermediate.dense.weight"] = random.standard_normal((32, 8))
        tensors[f"{stem}.intermediate.dense.bias"] = random.standard_normal(32)
        tensors[f"{stem}.output.dense.weight"] = random.standard_normal((8, 32))
        tensors[f"{stem}.output.dense.bias"] = random.standard_normal(8)
    for name in ("MODEL", "OTHER"):
        (tmp_path / name).mkdir()
        save_file(tensors, tmp_path / name / "model.safetensors")
        (tmp_path / name / "config.json").write_text(json.dumps({"model_type": "bert", "hidden_act": "gelu_new"}))
        tensors["bert.encoder.layer.1.intermediate.dense.bias"] = np.zeros(32)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    sys.modules.pop("mine", None)


# What each line ends with: its exit status, and what it says.
SAYS = (
    ("portable-ffn check --ffn", 0, "passed"),
    ("portable-ffn compare MODEL OTHER", 1, "because: b1 missing"),
    ("portable-ffn compare MODEL mine:network", 0, "passed: 1 of 1 layers agree"),
)


@pytest.mark.parametrize(("command", "said"), list(zip(COMMANDS, SAYS, strict=True)), ids=COMMANDS)
def test_the_commands(command, said, folder, capsys):
    start, status, says = said
    assert command.startswith(start)
    assert main(command.split()[1:]) == status
    assert says in capsys.readouterr().out
    page = re.search(r"--html (\S+)", command)
    assert page is None or (folder / page[1]).read_text().startswith("<!doctype html>")


def test_the_module():
    """It runs as it stands, in every dtype; a module itself is refused with the way to wrap it."""
    subprocess.run([sys.executable, "-c", PYTHON[1]], check=True)


def test_the_line_in_a_suite(folder):
    (folder / "test_mine.py").write_text(f"{NETWORK}\n{PYTHON[2]}")
    asked = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "portable_ffn.testing.plugin", "test_mine.py"]
    ran = subprocess.run([sys.executable, *asked], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    # NumPy multiplies ml_dtypes.bfloat16 into float32, which is a gap of its own.
    once = sum(case.once for case in CASES)
    assert f"{3 * len(CASES) - 2 * once} passed, {len(CASES) - once} xfailed" in ran.stdout
