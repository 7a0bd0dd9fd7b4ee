"""The README says only what is so: its tables are what the rows and a run say, its examples run."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.S | re.M)
COMMANDS = re.findall(r"portable-ffn ([a-z]+)", TEXT)


def tables():
    spec = importlib.util.spec_from_file_location("readme", ROOT / "ci" / "readme.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", tables().TABLES)
def test_no_table_is_stale(name):
    again = tables().rewritten(TEXT, [name])
    assert again == TEXT, f"the table {name} is stale; run python ci/readme.py"


def title(block):
    return next((line for line in block.splitlines() if "portable_ffn" in line), block.splitlines()[0])


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS, ids=title)
def test_examples_run(block, tmp_path):
    model = os.environ.get("PORTABLE_FFN_MODEL")
    if "MODEL" in block and not model:
        pytest.skip("PORTABLE_FFN_MODEL names no checkpoint; ci/test.sh sets it")
    program = block.replace('"MODEL"', repr(model))
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_commands_that_are_named_exist():
    from portable_ffn.__main__ import COMMANDS as there

    assert set(COMMANDS) <= set(there)


def test_links_lead_somewhere():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", TEXT):
        assert (ROOT / target).exists(), target
