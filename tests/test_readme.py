"""The README and the site say only what is so: their tables are what the rows and a run say, their examples run."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def title(block):
    return next((line for line in block.splitlines() if "portable_ffn" in line), block.splitlines()[0])


def tables():
    spec = importlib.util.spec_from_file_location("readme", ROOT / "ci" / "readme.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLES = tables()
PAGES = {page.relative_to(ROOT).as_posix(): page.read_text() for page in TABLES.PAGES}
BLOCKS = [
    pytest.param(block, id=f"{page}: {title(block)}")
    for page, text in PAGES.items()
    for block in re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)
]


@pytest.mark.parametrize("name", TABLES.TABLES)
def test_no_table_is_stale(name):
    holding = [text for text in PAGES.values() if TABLES.held_by(name, text)]
    assert holding, f"no page holds the table {name}"
    for text in holding:
        assert TABLES.rewritten(text, [name]) == text, f"the table {name} is stale; run python ci/readme.py"


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS)
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

    for page, text in PAGES.items():
        named = set(re.findall(r"portable-ffn ([a-z]+)", text))
        assert named <= set(there), f"{page} names {sorted(named - set(there))}"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    """Those inside the repository; the site's build checks its own as well."""
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", PAGES[page]):
        assert ((ROOT / page).parent / target).exists(), f"{page} leads to {target}"
