"""Tensors of safetensors as they lie in the file: bit for bit, read-only, in the memory of the file."""

import json
import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from portable_ffn.checkpoint._errors import CheckpointError, Undecided
from portable_ffn.checkpoint._tensors.store import open_store
from tests.checkpoint.files import same, write

safetensors = pytest.importorskip("safetensors", reason="the format's own library is the reference")
torch = pytest.importorskip("torch", reason="the real writer of bfloat16 and float8")
save_numpy = pytest.importorskip("safetensors.numpy").save_file
safetensors_torch = pytest.importorskip("safetensors.torch")
save_torch = safetensors_torch.save_file
TORCH_DTYPES = [
    *("float64", "float32", "float16", "bfloat16", "complex64", "bool"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
]


# Reading
@pytest.mark.parametrize("dtype", TORCH_DTYPES)
def test_each_dtype_that_torch_writes_is_read_bit_for_bit(tmp_path, dtype):
    rng = np.random.default_rng(7)
    kind = getattr(torch, dtype)
    high = 2 if dtype == "bool" else 256
    shapes = {"matrix": (5, 3), "scalar": (), "empty": (0, 4), "deep": (2, 1, 3, 1, 2), "row": (7,)}
    tensors, raw = {}, {}
    for name, shape in shapes.items():
        bits = rng.integers(0, high, int(np.prod(shape)) * kind.itemsize, dtype=np.uint8)
        raw[name] = bits.tobytes()
        tensors[name] = (
            torch.from_numpy(bits).view(kind).reshape(shape) if bits.size else torch.empty(shape, dtype=kind)
        )
    save_torch(tensors, tmp_path / "model.safetensors")
    store = open_store(tmp_path)
    for name, value in tensors.items():
        got = store.read(name)
        assert got.dtype.name == dtype == store.tensors[name].dtype
        assert got.shape == tuple(value.shape) == store.tensors[name].shape
        assert got.tobytes() == raw[name]


def test_what_numpy_writes_is_read_bit_for_bit(tmp_path):
    tensors = write(tmp_path / "model.safetensors", "a.weight", "ä.weight", "", "a/b")
    same(open_store(tmp_path), tensors)


def test_every_tensor_of_the_golden_checkpoints_is_read_as_safetensors_reads_it(cases):
    count = 0
    for folder in sorted(path.parent for path in (cases / "golden").glob("*/config.json")):
        store = open_store(folder)
        assert store.config == json.loads((folder / "config.json").read_text())
        with safetensors.safe_open(folder / "model.safetensors", "np") as reference:
            assert set(store.logical) == set(store.tensors) == set(reference.keys())
            assert store.metadata == reference.metadata()
            for name in store.tensors:
                np.testing.assert_array_equal(store.read(name), reference.get_tensor(name), strict=True)
                count += 1
    assert count > 1000


def test_an_array_is_a_read_only_view_of_the_mapped_file(tmp_path):
    write(tmp_path / "model.safetensors", "a", "b")
    store = open_store(tmp_path)
    first, second = store.read("a"), store.read("a")
    assert np.shares_memory(first, second)
    assert not first.flags.writeable
    assert not first.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        first.flags.writeable = True


def test_an_array_outlives_its_store_and_its_file(tmp_path):
    tensors = write(tmp_path / "model.safetensors", "a")
    array = open_store(tmp_path).read("a")
    (tmp_path / "model.safetensors").unlink()
    np.testing.assert_array_equal(array, tensors["a"])


def test_a_tensor_that_is_not_aligned_is_copied(tmp_path):
    data = np.arange(3, dtype=np.float32)
    text = b'{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}} '
    assert (8 + len(text)) % 4 == 0
    text += b" "
    (tmp_path / "m.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data.tobytes())
    got = open_store(tmp_path / "m.safetensors").read("a")
    assert got.flags.aligned
    assert not got.flags.writeable
    np.testing.assert_array_equal(got, data)


def test_an_empty_tensor_may_begin_where_another_does(tmp_path):
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    empty = {"dtype": "F32", "shape": [0, 3], "data_offsets": [0, 0]}
    text = json.dumps({"a": entry, "b": empty, "c": empty | {"data_offsets": [8, 8]}}).encode()
    (tmp_path / "m.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    store = open_store(tmp_path / "m.safetensors")
    assert [store.read(name).shape for name in "abc"] == [(2,), (0, 3), (0, 3)]


def test_a_store_can_be_pickled_and_errors_too(tmp_path):
    tensors = write(tmp_path / "model.safetensors", "a")
    store = open_store(tmp_path)
    store.read("a")
    same(pickle.loads(pickle.dumps(store)), tensors)
    error = pickle.loads(pickle.dumps(Undecided("which half is the gate?", "gate")))
    assert (str(error), error.argument) == ("which half is the gate?", "gate")
    assert isinstance(error, CheckpointError)
    assert isinstance(error, ValueError)


def test_a_file_that_shrank_since_it_was_opened_is_refused_not_touched(tmp_path):
    write(tmp_path / "model.safetensors", "a", shape=(1000, 10))
    store = open_store(tmp_path)
    os.truncate(tmp_path / "model.safetensors", 100)
    with pytest.raises(CheckpointError, match=r"had \d+ bytes when opened, has 100 now"):
        store.read("a")


def test_an_unknown_name_is_a_key_error(tmp_path):
    write(tmp_path / "model.safetensors", "a")
    store = open_store(tmp_path)
    for read in (store.read, store.read_logical, store.sources):
        with pytest.raises(KeyError, match="b"):
            read("b")


def test_tied_tensors_are_found_under_every_name(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(3, 4), torch.nn.Linear(4, 3))
    model[1].weight = model[0].weight
    safetensors_torch.save_model(model, tmp_path / "x.safetensors", metadata={"note": "2.bias"})
    store = open_store(tmp_path / "x.safetensors")
    stored = {"0.weight", "1.weight"} & set(store.tensors)
    assert len(stored) == 1
    assert set(store.logical) == set(model.state_dict())
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(store.read_logical(name), value.numpy())
        assert store.logical[name].name == name
    assert set(store.sources("0.weight")) == set(store.sources("1.weight")) == stored


def test_opening_needs_neither_safetensors_nor_ml_dtypes(tmp_path):
    tensors = write(tmp_path / "model.safetensors", "a")
    code = textwrap.dedent("""
        import sys
        for name in ("safetensors", "ml_dtypes", "torch", "gguf"):
            sys.modules[name] = None
        from portable_ffn.checkpoint._tensors.store import open_store
        print(open_store(sys.argv[1]).read("a").tobytes().hex())
    """)
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == tensors["a"].tobytes().hex(), done.stderr
