"""The examples run, on every library that they name."""

import importlib
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
LIBRARIES = ("numpy", "dask", "mlx", "array-api-strict", "jax", "torch")


@pytest.mark.parametrize("library", LIBRARIES)
def test_train_anywhere(library, require):
    """The same steps on each library: the loss falls by eight, to NumPy's own value, and the weights are its own."""
    require(library)
    example = runpy.run_path(str(EXAMPLES / "train_anywhere.py"))
    module = importlib.import_module(example["MODULES"].get(library, library))
    steps = 10 if library == "dask" else 100  # a graph of 100 steps takes seconds to build
    weights = example["train"](module.array if library == "mlx" else module.asarray, steps)
    numpy = example["train"](np.asarray, steps)
    assert type(weights.W1) is not np.ndarray or library == "numpy"
    for w, r in zip(weights.to(like=example["INPUT"]), numpy, strict=True):
        assert w is r is None or np.allclose(w, r, rtol=0, atol=2e-5)
    start = example["loss"](example["train"](np.asarray, 0))
    assert example["loss"](weights) < start / (2 if library == "dask" else 8)


def test_train_anywhere_as_a_program():
    found = subprocess.run(
        [sys.executable, str(EXAMPLES / "train_anywhere.py")], capture_output=True, text=True, check=True
    )
    assert found.stdout.startswith("numpy: loss 0.")


def test_every_example_has_a_test():
    named = Path(__file__).read_text()
    assert all(path.name in named for path in EXAMPLES.glob("*.py"))
