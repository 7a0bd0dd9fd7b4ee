"""Containers beside safetensors and GGUF: as their own libraries write them, hostile ones, and no pickle executed."""

import json
import pickle
import re
import sys
import zipfile

import numpy as np
import pytest

from portable_ffn import checkpoint
from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._tensors.store import open_store

torch = pytest.importorskip("torch", reason="the writer of its own files")
ml_dtypes = pytest.importorskip("ml_dtypes", reason="bfloat16 in NumPy is its")

P = "model.layers.0.mlp."
RNG = np.random.default_rng(3)
WEIGHTS = {
    f"{P}{name}.weight": RNG.standard_normal(shape).astype(np.float32)
    for name, shape in (("gate_proj", (10, 6)), ("up_proj", (10, 6)), ("down_proj", (6, 10)))
}
TENSORS = {name: torch.from_numpy(value) for name, value in WEIGHTS.items()}


class Bomb:
    """What a pickle does when it is loaded."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


def same(store, expected=WEIGHTS):
    """Whether a store has these tensors, bit for bit, and can be sent to another process."""
    store = pickle.loads(pickle.dumps(store))
    assert set(store.logical) >= set(expected)
    for name, value in expected.items():
        got = store.read_logical(name)
        assert (got.dtype, got.shape) == (value.dtype, value.shape)
        assert store.logical[name].dtype == value.dtype.name
        np.testing.assert_array_equal(got, value)


def config(folder):
    """A config of what the tensors are."""
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "hidden_size": 6, "intermediate_size": 10}))
    return folder


# PyTorch


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("nest", [(), ("state_dict",), ("model", "module"), ("model_state_dict",)])
def test_a_state_dict_as_it_is_and_nested(tmp_path, new, nest):
    state = TENSORS
    for key in reversed(nest):
        state = {key: state, "epoch": 3, "optimizer": {"state": {0: torch.ones(2)}}}
    torch.save(state, config(tmp_path) / "model.pt", _use_new_zipfile_serialization=new)
    for path in (tmp_path, tmp_path / "model.pt"):
        same(open_store(path))
    (entry,) = checkpoint.find(tmp_path)
    assert entry.form == "gated"
    assert entry.tensors == tuple(WEIGHTS)
    # What has to be read whole is told.
    assert any("read whole" in line for line in entry.evidence) != new


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float64", "float8_e4m3fn"])
def test_dtypes_of_torch(tmp_path, kind):
    torch.save({"a.b": TENSORS[P + "up_proj.weight"].to(getattr(torch, kind)).T}, tmp_path / "m.pth")
    dtype = np.dtype(getattr(ml_dtypes, kind, None) or kind)
    got = open_store(tmp_path).read("a.b")
    assert got.dtype == dtype
    assert not got.flags.writeable
    np.testing.assert_array_equal(got, WEIGHTS[P + "up_proj.weight"].astype(dtype).T)


def test_shards_of_torch_by_their_index_and_without(tmp_path):
    names = list(TENSORS)
    files = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
    torch.save({names[0]: TENSORS[names[0]]}, tmp_path / files[0])
    torch.save({name: TENSORS[name] for name in names[1:]}, tmp_path / files[1])
    torch.save({"lr": 1.0}, tmp_path / "training_args.bin")
    same(open_store(tmp_path))
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": {name: files[place > 0] for place, name in enumerate(names)}}))
    same(open_store(tmp_path))
    same(open_store(index))
    index.unlink()
    (tmp_path / files[1]).unlink()
    with pytest.raises(CheckpointError, match=r"has shards \[1\] of 2; all of them are needed"):
        open_store(tmp_path)


def test_ranks_of_metas_releases_are_joined(tmp_path):
    first, last, linear = (WEIGHTS[f"{P}{name}.weight"] for name in ("gate_proj", "down_proj", "up_proj"))
    layer = "layers.0.feed_forward."
    for rank in range(2):
        rows = slice(rank * 5, rank * 5 + 5)
        parts = {"w1": first[rows], "w3": linear[rows], "w2": last[:, rows]}
        state = {f"{layer}{name}.weight": torch.from_numpy(part.copy()) for name, part in parts.items()}
        torch.save(state | {"layers.0.ffn_norm.weight": torch.ones(6)}, tmp_path / f"consolidated.0{rank}.pth")
    (tmp_path / "params.json").write_text(json.dumps({"dim": 6, "n_layers": 1}))
    same(open_store(tmp_path), {layer + "w1.weight": first, layer + "w3.weight": linear, layer + "w2.weight": last})
    network = checkpoint.load(tmp_path)
    assert network.activation == "silu"
    np.testing.assert_array_equal(network.weights.W2, last.T)
    (tmp_path / "consolidated.00.pth").rename(tmp_path / "consolidated.02.pth")
    with pytest.raises(CheckpointError, match=r"ranks \[1, 2\] of a model, and \[0, 1\] are needed"):
        open_store(tmp_path)


@pytest.mark.parametrize("data", [{"model": Bomb()}, Bomb(), [Bomb()], {"state_dict": {"a": Bomb()}}])
@pytest.mark.parametrize("new", [True, False])
def test_no_object_is_ever_made(tmp_path, data, new):
    torch.save(data, tmp_path / "model.pt", _use_new_zipfile_serialization=new)
    with pytest.raises(CheckpointError, match=r"found an object of .*; no pickle is executed"):
        open_store(tmp_path)


def test_a_module_and_its_script_are_refused(tmp_path):
    torch.save(torch.nn.Linear(2, 3), tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match=r"found an object of torch\.nn\.\S+; no pickle is executed; save"):
        open_store(tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "b.pt", "w") as archive:
        archive.writestr("m/data.pkl", b"")
        archive.writestr("m/constants.pkl", b"")
    with pytest.raises(CheckpointError, match="is a TorchScript archive, whose code is not run"):
        open_store(tmp_path / "b.pt")


@pytest.mark.parametrize("version", ["2.5.1", "2.0", "1.13.1+cu117"])
def test_an_older_torch_is_refused_with_the_reason(tmp_path, monkeypatch, version):
    torch.save(TENSORS, tmp_path / "model.pt")
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(CheckpointError, match=rf"needs torch 2\.6 or later.*runs no code.*torch {re.escape(version)}"):
        open_store(tmp_path)


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("model.pt", "torch", "torch"),
        ("model.weights.h5", "h5py", "hdf5"),
        ("flax_model.msgpack", "msgpack", "msgpack"),
        ("manifest.ocdbt", "tensorstore", "orbax"),
    ],
)
def test_a_package_that_is_missing_is_named_with_its_extra(tmp_path, monkeypatch, name, package, extra):
    torch.save(TENSORS, tmp_path / name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(CheckpointError, match=rf"needs {package}.*pip install portable-ffn\[{extra}\]"):
        open_store(tmp_path)


def test_a_tensor_spread_out_of_one_number_is_refused(tmp_path):
    torch.save({"a.b": torch.ones(1).expand(10**6, 10**6)}, tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match="has 4000000000000 bytes, and the file"):
        open_store(tmp_path)


def test_tensors_that_are_not_plain_are_refused_when_read(tmp_path):
    torch.save({"a.b": torch.eye(3).to_sparse(), "c.d": torch.ones(2)}, tmp_path / "model.pt")
    store = open_store(tmp_path)
    np.testing.assert_array_equal(store.read("c.d"), np.ones(2))
    with pytest.raises(CheckpointError, match=r"'a\.b' is of float32 \(torch\.sparse_coo\), which is not read"):
        store.read("a.b")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x06\0\0\0\x10\0TransformerSpec\0" + bytes(50), "is a CTranslate2 model"),
        (b"lmgg" + bytes(50), "is a GGML file of before GGUF"),
        (b"\x12\x34" + bytes(50), "is no PyTorch file and no pickle"),
        (b"", "is no PyTorch file and no pickle"),
        (b"PK\x03\x04" + bytes(50), "must be a zip archive of torch.save, and is damaged"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer"),
    ],
)
def test_a_bin_that_is_no_pickle_is_called_what_it_is(tmp_path, data, words):
    (tmp_path / "model.bin").write_bytes(data)
    with pytest.raises(CheckpointError, match=words):
        open_store(tmp_path)


def test_the_weights_of_openvino_are_called_so(tmp_path):
    (tmp_path / "openvino_model.bin").write_bytes(bytes(64))
    (tmp_path / "openvino_model.xml").write_text("<net/>")
    with pytest.raises(CheckpointError, match="is the weights of an OpenVINO model"):
        open_store(tmp_path)


def test_a_zip_of_something_else_and_packed_members_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("readme", b"hello")
    with pytest.raises(CheckpointError, match=r"is a zip archive, and none of torch\.save"):
        open_store(tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "b.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/data.pkl", bytes(10**6))
    with pytest.raises(CheckpointError, match=r"holds packed members, as torch\.save writes none"):
        open_store(tmp_path / "b.pt")


def test_several_containers_and_what_was_read_of_them(tmp_path):
    torch.save(TENSORS, config(tmp_path) / "pytorch_model.bin")
    np.savez(tmp_path / "weights.npz", **WEIGHTS)
    (entry,) = checkpoint.find(tmp_path)
    assert "files: pytorch_model.bin read, not weights.npz beside it" in entry.evidence
    torch.save(TENSORS, tmp_path / "other.bin")
    (tmp_path / "pytorch_model.bin").rename(tmp_path / "model.bin")
    with pytest.raises(CheckpointError, match=r"has several files, model\.bin, other\.bin, and no index"):
        open_store(tmp_path)


# NumPy


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_archives_of_numpy(tmp_path, write):
    arrays = {name.replace(".", "/"): value for name, value in WEIGHTS.items()}
    arrays[P + "x"] = np.asfortranarray(WEIGHTS[P + "up_proj.weight"].astype(ml_dtypes.bfloat16))
    write(config(tmp_path) / "weights.npz", **arrays)
    same(open_store(tmp_path), WEIGHTS | {P + "x": arrays[P + "x"]})


def npz(path, members, compression=zipfile.ZIP_STORED):
    """An archive of these members."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def member(shape, data=b"", descr="<f4"):
    """A .npy of any header."""
    text = str({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY\x01\0" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"a.npy": member((10**9, 10**9))}, "doesn't fit its 0 bytes"),
        ({"a.npy": member((2,), bytes(7))}, "doesn't fit its 7 bytes"),
        ({"a.npy": b"\x93NUMPY\x01\0\xff\xff"}, "is damaged"),
        ({"a.npy": b"nothing"}, "is damaged"),
        ({"a.npy": member((2,), bytes(8), "<f4" * 9000)}, "is damaged"),
        ({"a.txt": b""}, "holds no array"),
        ({"a/b.npy": member((2,), bytes(8)), "a.b.npy": member((2,), bytes(8))}, "have the same name"),
    ],
)
def test_hostile_archives_of_numpy(tmp_path, members, words):
    npz(tmp_path / "m.npz", members)
    with pytest.raises(CheckpointError, match=words):
        open_store(tmp_path)


def test_objects_in_archives_of_numpy_are_not_unpickled(tmp_path):
    np.savez(tmp_path / "m.npz", a=np.array([Bomb()], dtype=object), b=np.ones(3))
    store = open_store(tmp_path)
    np.testing.assert_array_equal(store.read("b"), np.ones(3))
    with pytest.raises(CheckpointError, match="object"):
        store.read("a")


def test_a_bomb_of_zeros_is_refused(tmp_path):
    data = member((1 << 22,), bytes(1 << 24))
    npz(tmp_path / "m.npz", {"a.npy": data}, zipfile.ZIP_DEFLATED)
    raw = bytearray((tmp_path / "m.npz").read_bytes())
    place = raw.rindex(b"PK\x01\x02")
    raw[place + 20 : place + 24] = (100).to_bytes(4, "little")
    (tmp_path / "m.npz").write_bytes(raw)
    with pytest.raises(CheckpointError):
        open_store(tmp_path).read("a")
