"""What stands in an editor: types of results, names of activations, dir() and lazy rooms, help."""

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import portable_ffn
from portable_ffn import ACTIVATIONS
from portable_ffn._arrays.typing import ActivationName

EXAMPLES = Path(__file__).with_name("typed_examples.py")
ROOMS = ("adapters", "checkpoint", "experts", "oracle", "testing")


def marked():
    """The lines that hold an error, and its code."""
    lines = EXAMPLES.read_text().splitlines()
    return {number: found[1] for number, line in enumerate(lines, 1) if (found := re.search(r"# error: (\S+)$", line))}


def test_the_names_of_a_type_checker_are_those_of_the_table():
    assert get_args(ActivationName) == tuple(ACTIVATIONS)


@pytest.mark.slow
def test_mypy_on_examples(require):
    require("torch")
    pytest.importorskip("mypy", reason="mypy is not installed")
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", str(EXAMPLES)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=EXAMPLES.parents[2], check=False)
    found = dict(re.findall(r"typed_examples\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.M))
    assert {int(line): code for line, code in found.items()} == marked(), done.stdout


@pytest.mark.slow
def test_pyright_on_examples():
    pytest.importorskip("pyright", reason="pyright is not installed")
    command = [sys.executable, "-m", "pyright", str(EXAMPLES)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=EXAMPLES.parents[2], check=False)
    found = {int(line) for line in re.findall(r"typed_examples\.py:(\d+):\d+ - error", done.stdout)}
    assert found == set(marked()), done.stdout


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_are_reached_as_attributes(room):
    program = f"import portable_ffn, sys; assert 'portable_ffn.{room}' not in sys.modules; print(portable_ffn.{room})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert f"portable_ffn.{room}" in done.stdout
    assert room in dir(portable_ffn)


@pytest.mark.parametrize("room", ROOMS)
def test_dir_is_the_public_names(room):
    module = getattr(portable_ffn, room)
    assert sorted(dir(module)) == sorted(module.__all__)
    assert not [name for name in dir(module) if name.startswith("_")]


def test_dir_of_the_package():
    assert set(dir(portable_ffn)) == {*portable_ffn.__all__, *ROOMS, "__version__"}
    with pytest.raises(AttributeError, match="module 'portable_ffn' has no attribute 'fead_forward'"):
        portable_ffn.fead_forward  # noqa: B018
