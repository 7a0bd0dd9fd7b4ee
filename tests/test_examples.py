"""The examples run, on every library that they name."""

import importlib
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
LIBRARIES = ("numpy", "dask", "mlx", "array-api-strict", "jax", "torch", "tensorflow", "paddle", "tinygrad", "dpnp")


@pytest.mark.parametrize("library", LIBRARIES)
def test_train_anywhere(library, require):
    """The same steps on each library: ten of them end at NumPy's own weights, a hundred at an eighth of the loss."""
    require(library)
    example = runpy.run_path(str(EXAMPLES / "train_anywhere.py"))
    train, loss = example["train"], example["loss"]
    module = importlib.import_module(example["MODULES"].get(library, library))
    asarray = getattr(module, example["NAMES"].get(library, "asarray"))
    weights = train(asarray, 10)
    assert type(weights.W1) is not np.ndarray or library == "numpy"
    for w, r in zip(weights.to(like=example["INPUT"]), train(np.asarray, 10), strict=True):
        assert w is r is None or np.allclose(w, r, rtol=0, atol=1e-6)
    if library not in ("dask", "tinygrad"):  # whose graph of a hundred steps takes seconds to build
        assert loss(train(asarray)) < loss(train(asarray, 0)) / 8


def test_train_anywhere_as_a_program():
    found = subprocess.run(
        [sys.executable, str(EXAMPLES / "train_anywhere.py")], capture_output=True, text=True, check=True
    )
    assert found.stdout.startswith("numpy: loss 0.")


def test_every_example_has_a_test():
    named = Path(__file__).read_text()
    assert all(path.name in named for path in EXAMPLES.glob("*.py"))
