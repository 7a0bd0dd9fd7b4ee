"""Checkpoints as files: what real writers write is read bit for bit, and what is written here is read by them."""

import json
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from portable_ffn.checkpoint._errors import CheckpointError, Undecided
from portable_ffn.checkpoint._files.save import save_tensors
from portable_ffn.checkpoint._tensors.store import open_store

ml_dtypes = pytest.importorskip("ml_dtypes", reason="bfloat16 and float8 in NumPy are its")
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


def write(path, *names, shape=(3, 4), seed=0, metadata=None):
    """A file of random float32 tensors by the format's own library."""
    rng = np.random.default_rng(seed)
    tensors = {name: rng.standard_normal(shape).astype(np.float32) for name in names}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_numpy(tensors, path, metadata=metadata)
    return tensors


def write_index(directory, places, name="model.safetensors.index.json"):
    """An index as save_pretrained writes it."""
    text = {"metadata": {"total_size": 1}, "weight_map": places}
    (directory / name).write_text(json.dumps(text))


def same(store, tensors):
    """Whether the store has these tensors and no others, bit for bit."""
    assert set(store.tensors) == set(store.logical) == set(tensors)
    for name, value in tensors.items():
        got = store.read(name)
        assert (got.dtype, got.shape) == (value.dtype, value.shape)
        assert store.tensors[name].shape == value.shape
        assert store.tensors[name].dtype == value.dtype.name
        assert got.tobytes() == value.tobytes()
        assert store.sources(name) == (name,)


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


# Paths


def test_a_path_may_be_a_string_a_path_relative_or_from_home(tmp_path, monkeypatch):
    tensors = write(tmp_path / "model" / "model.safetensors", "a")
    (tmp_path / "model" / "config.json").write_text('{"model_type": "bert"}')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    class Like:
        def __fspath__(self):
            return "model"

    for path in (str(tmp_path / "model"), tmp_path / "model", "model", "./model/", "~/model", Path("~/model"), Like()):
        store = open_store(path)
        same(store, tensors)
        assert store.config == {"model_type": "bert"}
        assert store.path.is_dir()


def test_a_missing_path_is_file_not_found(tmp_path):
    write(tmp_path / "model.safetensors", "a")
    missing = tmp_path / "nothing"
    for path in (missing, missing / "model.safetensors", tmp_path / "model.safetensors" / "x", "~no-such-user-here/x"):
        with pytest.raises(FileNotFoundError, match="no such file or directory"):
            open_store(path)
    (tmp_path / "link").symlink_to(missing)
    with pytest.raises(FileNotFoundError, match="link"):
        open_store(tmp_path / "link")


@pytest.mark.parametrize("path", [None, 3, 1.5, ["model"]])
def test_what_is_no_path_is_a_type_error(path):
    with pytest.raises(TypeError, match="PathLike"):
        open_store(path)


def test_a_file_is_read_alone_without_the_config_beside_it(tmp_path):
    tensors = write(tmp_path / "model.safetensors", "a", metadata={"format": "pt", "form": "dense"})
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    store = open_store(tmp_path / "model.safetensors")
    same(store, tensors)
    assert store.config == {}
    assert store.metadata == {"format": "pt", "form": "dense"}
    assert open_store(tmp_path).metadata == {"format": "pt", "form": "dense"}


def test_infinity_in_a_config_is_read_as_older_transformers_wrote_it(tmp_path):
    write(tmp_path / "model.safetensors", "a")
    (tmp_path / "config.json").write_text('{"time_step_limit": [0.0, Infinity, -Infinity]}')
    assert open_store(tmp_path).config == {"time_step_limit": [0.0, float("inf"), float("-inf")]}


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


# Several files


def test_shards_are_read_by_their_index(tmp_path):
    first = write(tmp_path / "model-00001-of-00002.safetensors", "a", "b")
    second = write(tmp_path / "model-00002-of-00002.safetensors", "c", seed=1)
    places = dict.fromkeys(first, "model-00001-of-00002.safetensors")
    write_index(tmp_path, places | {"c": "./model-00002-of-00002.safetensors"})
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    for path in (tmp_path, tmp_path / "model.safetensors.index.json"):
        store = open_store(path)
        same(store, first | second)
        assert store.config == {"model_type": "llama"}
        assert store.metadata == {}
    assert store.tensors["c"].file.name == "model-00002-of-00002.safetensors"
    same(open_store(tmp_path / "model-00002-of-00002.safetensors"), second)


def test_an_index_may_name_one_file_or_files_in_a_folder(tmp_path):
    tensors = write(tmp_path / "model.safetensors", "a")
    write_index(tmp_path, {"a": "model.safetensors"})
    same(open_store(tmp_path), tensors)
    more = write(tmp_path / "m" / "sub" / "x.safetensors", "a")
    write_index(tmp_path / "m", {"a": "sub/x.safetensors"})
    same(open_store(tmp_path / "m"), more)


def test_links_may_lead_out_of_the_directory_as_in_the_cache_of_the_hub(tmp_path):
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "main"
    snapshot.mkdir(parents=True)
    first, second = write(blobs / "0af3.safetensors", "a"), write(blobs / "99e1.safetensors", "b")
    for blob, name in (("0af3", "model-00001-of-00002.safetensors"), ("99e1", "model-00002-of-00002.safetensors")):
        (blobs / f"{blob}.safetensors").rename(blobs / blob)
        (snapshot / name).symlink_to(f"../../blobs/{blob}")
    write_index(snapshot, {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"})
    same(open_store(snapshot), first | second)
    same(open_store(blobs / "0af3"), first)


@pytest.mark.parametrize(
    "names",
    [
        ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],
        ["model-00000-of-00002.safetensors", "model-00001-of-00002.safetensors"],
        ["x-1-of-3.safetensors", "x-2-of-3.safetensors", "x-3-of-3.safetensors"],
        ["model-00001-of-00001.safetensors"],
        ["consolidated.safetensors"],
        ["pytorch_model.fp16.safetensors"],
    ],
)
def test_without_an_index_a_complete_set_of_shards_or_one_file_is_read(tmp_path, names):
    tensors = {}
    for seed, name in enumerate(names):
        tensors |= write(tmp_path / name, f"tensor{seed}", seed=seed)
    (tmp_path / "pytorch_model.bin").write_bytes(b"never read")
    same(open_store(tmp_path), tensors)


def test_model_safetensors_counts_beside_other_files(tmp_path):
    tensors = write(tmp_path / "model.safetensors", "a")
    write(tmp_path / "cases.safetensors", "a", seed=1)
    write(tmp_path / "consolidated.safetensors", "a", seed=2)
    same(open_store(tmp_path), tensors)


def test_a_consolidated_copy_beside_an_index_is_not_the_checkpoint(tmp_path):
    tensors = write(tmp_path / "model-00001-of-00001.safetensors", "a")
    write_index(tmp_path, {"a": "model-00001-of-00001.safetensors"})
    copy = write(tmp_path / "consolidated.safetensors", "b")
    write_index(tmp_path, {"b": "consolidated.safetensors"}, "consolidated.safetensors.index.json")
    same(open_store(tmp_path), tensors)
    same(open_store(tmp_path / "consolidated.safetensors.index.json"), copy)


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


# Writing


def views():
    """Arrays of which the memory is not the values in order."""
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    return {
        "plain": base,
        "transposed": base.T,
        "sliced": base[1:3, ::2],
        "backwards": base[::-1, ::-1],
        "fortran": np.asfortranarray(base),
        "broadcast": np.broadcast_to(base[0], (3, 6)),
        "permuted": base.reshape(2, 2, 6).transpose(2, 0, 1),
        "scalar": base[1, 2].reshape(()),
        "empty": base[:, :0],
        "big-endian": base.astype(">f4"),
        "half": base.astype(np.float16).T,
        "double": base.astype(np.float64)[:, 3],
        "bfloat16": base.astype(ml_dtypes.bfloat16).T,
        "float8": base.astype(ml_dtypes.float8_e4m3fn).T,
        "int": base.astype(np.int64)[::2],
        "bool": (base > 3).T,
    }


def test_views_of_every_stride_are_read_back_equal_by_us_and_by_safetensors(tmp_path):
    arrays = views()
    save_tensors(tmp_path / "x.safetensors", arrays, {"form": "dense"})
    store = open_store(tmp_path / "x.safetensors")
    assert store.metadata == {"form": "dense"}
    with safetensors.safe_open(tmp_path / "x.safetensors", "pt") as reference:
        for name, value in arrays.items():
            np.testing.assert_array_equal(store.read(name), value)
            assert store.read(name).dtype == value.dtype.newbyteorder("<")
            assert store.read(name).shape == value.shape
            assert store.tensors[name].offset % value.itemsize == 0
            other = reference.get_tensor(name)
            np.testing.assert_array_equal(other.to(torch.float64).numpy(), value.astype(np.float64))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("library", ["torch", "jax", "mlx", "dask", "ndonnx", "array-api-strict"])
def test_views_of_every_library_are_read_back_equal(tmp_path, require, library, dtype):
    require(library)
    value = np.arange(24).reshape(4, 6)[::-1] / 8
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    array = LIBRARIES[library](value, dtype)
    if array is None:
        pytest.skip(f"{library} has no {dtype}")
    save_tensors(tmp_path / "x.safetensors", {"w": array})
    got = open_store(tmp_path / "x.safetensors").read("w")
    assert got.dtype == kind
    np.testing.assert_array_equal(got, value.T.astype(kind))


def torch_view(value, dtype):
    """A transposed leaf that asks for its gradient."""
    return torch.tensor(value.copy(), dtype=getattr(torch, dtype)).requires_grad_().T


def jax_view(value, dtype):
    import jax

    with jax.enable_x64(True):
        return jax.numpy.asarray(value, dtype=dtype).T


def mlx_view(value, dtype):
    import mlx.core as mx

    return mx.array(value.astype(np.float64), dtype=getattr(mx, dtype)).T


def dask_view(value, dtype):
    import dask.array as da

    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    return da.from_array(value.astype(kind), chunks=(2, 3)).T


def ndonnx_view(value, dtype):
    import ndonnx as ndx

    return None if dtype == "bfloat16" else ndx.asarray(value.astype(dtype)).T


def strict_view(value, dtype):
    import array_api_strict as xp

    return None if dtype in ("bfloat16", "float16") else xp.asarray(value, dtype=getattr(xp, dtype)).T


LIBRARIES = {
    "torch": torch_view,
    "jax": jax_view,
    "mlx": mlx_view,
    "dask": dask_view,
    "ndonnx": ndonnx_view,
    "array-api-strict": strict_view,
}


def test_a_file_is_replaced_while_it_is_mapped(tmp_path):
    path = tmp_path / "x.safetensors"
    save_tensors(path, {"a": np.arange(6.0).reshape(2, 3)})
    array = open_store(path).read("a")
    save_tensors(path, {"a": array.T * 2})
    np.testing.assert_array_equal(array, np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(open_store(path).read("a"), np.arange(6.0).reshape(2, 3).T * 2)
    assert [file.name for file in tmp_path.iterdir()] == ["x.safetensors"]


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "x.safetensors"
    save_tensors(path, {"a": np.arange(3.0)})

    def fail(number):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        save_tensors(path, {"a": np.arange(4.0)})
    monkeypatch.undo()
    np.testing.assert_array_equal(open_store(path).read("a"), np.arange(3.0))
    assert [file.name for file in tmp_path.iterdir()] == ["x.safetensors"]


def test_a_written_file_has_the_permissions_of_any_new_file(tmp_path):
    save_tensors(tmp_path / "x.safetensors", {"a": np.arange(3.0)})
    (tmp_path / "other").touch()
    assert (tmp_path / "x.safetensors").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_the_same_arrays_give_the_same_bytes_in_any_order(tmp_path):
    arrays = views()
    save_tensors(tmp_path / "x.safetensors", arrays)
    save_tensors(tmp_path / "y.safetensors", dict(reversed(arrays.items())))
    assert (tmp_path / "x.safetensors").read_bytes() == (tmp_path / "y.safetensors").read_bytes()


def test_every_tensor_is_aligned_whatever_stands_before_it(tmp_path):
    arrays = {"a": np.arange(3, dtype=np.int8), "b": np.arange(3.0), "c": np.arange(3, dtype=np.float16)}
    save_tensors(tmp_path / "x.safetensors", arrays)
    store = open_store(tmp_path / "x.safetensors")
    for name, value in arrays.items():
        assert store.tensors[name].offset % value.itemsize == 0
        np.testing.assert_array_equal(store.read(name), value)


def test_nothing_may_be_written_and_is_read_back(tmp_path):
    save_tensors(tmp_path / "x.safetensors", {})
    assert dict(open_store(tmp_path / "x.safetensors").tensors) == {}


@pytest.mark.parametrize(
    ("tensors", "metadata", "error", "words"),
    [
        ({"a": [1.0, 2.0]}, None, TypeError, "a must be an array"),
        ({"a": None}, None, TypeError, "a must be an array.*got None"),
        ({"a": np.ma.masked_array([1.0], [True])}, None, TypeError, "mask would be lost"),
        ({"a": np.array(["x"])}, None, TypeError, "dtype that safetensors holds, got str"),
        ({"a": np.zeros(2, np.longdouble)}, None, TypeError, "got (longdouble|float128|float96)"),
        ({"a": np.zeros(2, ml_dtypes.int4)}, None, TypeError, "got int4"),
        ({"a": np.zeros(2, ml_dtypes.float4_e2m1fn)}, None, TypeError, "got float4_e2m1fn"),
        ({1: np.zeros(2)}, None, TypeError, "names of tensors must be strings, got int"),
        ({"\ud800": np.zeros(2)}, None, ValueError, "must be UTF-8"),
        ({"__metadata__": np.zeros(2)}, None, ValueError, "rename it"),
        ({"a": np.zeros(2)}, {"layers": 3}, TypeError, "metadata must map strings to strings"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(tmp_path, tensors, metadata, error, words):
    with pytest.raises(error, match=words):
        save_tensors(tmp_path / "x.safetensors", tensors, metadata)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x.bin", "x", "x.gguf", "adapter_model.safetensors"])
def test_a_name_that_would_not_be_read_back_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"path must end in \.safetensors"):
        save_tensors(tmp_path / name, {"a": np.zeros(2)})
    with pytest.raises(FileNotFoundError):
        save_tensors(tmp_path / "missing" / "x.safetensors", {"a": np.zeros(2)})


def test_saving_where_there_is_no_directory(tmp_path):
    """The caller's own path is named, not that of the draft beside it."""
    (tmp_path / "file").write_text("")
    for folder in ("absent", "file"):
        with pytest.raises(FileNotFoundError, match=f"{folder} must be a directory to hold x.safetensors") as caught:
            save_tensors(tmp_path / folder / "x.safetensors", {"a": np.ones(2)})
        assert ".tmp" not in str(caught.value)
    (tmp_path / "x.safetensors").mkdir()
    with pytest.raises(OSError, match=r"x\.safetensors") as caught:
        save_tensors(tmp_path / "x.safetensors", {"a": np.ones(2)})
    assert ".tmp" not in str(caught.value)


def test_a_file_of_another_kind_is_called_so(tmp_path):
    (tmp_path / "x.safetensors").write_text("a table, a picture: anything but tensors")
    with pytest.raises(CheckpointError, match="no safetensors file"):
        open_store(tmp_path / "x.safetensors")
