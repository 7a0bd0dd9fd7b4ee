"""Between `find` and `load` a file stays the same one, or an error says that it didn't."""

import os
import pickle

import numpy as np
import pytest

from portable_ffn import checkpoint
from portable_ffn.checkpoint import CheckpointError
from tests.checkpoint.bases import BASES, D


def other(folder):
    """A file of the same size and header whose tensors lie in another order."""
    made = BASES["llama"].copy()
    first, second = (f"model.layers.0.mlp.{name}_proj.weight" for name in ("gate", "up"))
    made.tensors[first], made.tensors[second] = made.tensors[second], made.tensors[first]
    return made.write(folder) / "model.safetensors"


@pytest.mark.parametrize("how", ["replaced", "written over"])
@pytest.mark.parametrize("sent", [False, True], ids=["here", "pickled"])
def test_a_file_that_changed_is_not_read(tmp_path, how, sent):
    path = BASES["llama"].write(tmp_path / "one")
    entry, _ = checkpoint.find(path)
    new = other(tmp_path / "two")
    file = path / "model.safetensors"
    assert new.stat().st_size == file.stat().st_size
    if how == "replaced":
        new.replace(file)
    else:
        file.write_bytes(new.read_bytes())
        os.utime(file, ns=(1, 1))
    if sent:
        entry = pickle.loads(pickle.dumps(entry))
    with pytest.raises(CheckpointError, match=r"was replaced or changed since it was opened.*; open it again"):
        entry.load()
    assert checkpoint.load(path)(np.ones((2, D), np.float32)).shape == (2, D)


def test_a_file_written_over_after_its_first_read(tmp_path):
    path = BASES["llama"].write(tmp_path / "one")
    first, second = checkpoint.find(path)
    first.load()
    os.utime(path / "model.safetensors", ns=(1, 1))
    with pytest.raises(CheckpointError, match="was replaced or changed"):
        second.load()


def test_a_file_replaced_after_its_first_read_is_the_first_one_still(tmp_path):
    """The map of the first file stays as it was, so what is read fits its header."""
    path = BASES["llama"].write(tmp_path / "one")
    entry, _ = checkpoint.find(path)
    before = np.array(entry.load().weights.W1)
    other(tmp_path / "two").replace(path / "model.safetensors")
    np.testing.assert_array_equal(entry.load().weights.W1, before)


def test_other_formats_are_held_too(tmp_path):
    """An archive of NumPy: the same names and sizes, other values."""
    shapes = {name: tensor.shape for name, tensor in BASES["llama"].tensors.items()}
    for number, name in enumerate(("one.npz", "two.npz")):
        np.savez(tmp_path / name, **{key: np.full(shape, number + 1.0) for key, shape in shapes.items()})
    entry, _ = checkpoint.find(tmp_path / "one.npz", activation="silu")
    (tmp_path / "two.npz").replace(tmp_path / "one.npz")
    with pytest.raises(CheckpointError, match="was replaced or changed since it was opened"):
        entry.load()
