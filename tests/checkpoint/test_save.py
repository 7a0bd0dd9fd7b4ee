"""What is written: read back equal by this library and by safetensors, whole or not at all."""

import os

import numpy as np
import pytest

from portable_ffn.checkpoint._files.save import save_tensors
from portable_ffn.checkpoint._tensors.store import open_store

ml_dtypes = pytest.importorskip("ml_dtypes", reason="bfloat16 and float8 in NumPy are its")
safetensors = pytest.importorskip("safetensors", reason="the format's own library is the reference")
torch = pytest.importorskip("torch", reason="the real writer of bfloat16 and float8")


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
