"""Containers of trees: HDF5 of Keras, Flax msgpack and Orbax, as their own libraries write them, and hostile ones."""

import json
import pickle

import numpy as np
import pytest

from portable_ffn import checkpoint
from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._tensors.store import open_store

h5py = pytest.importorskip("h5py", reason="HDF5 needs it")
msgpack = pytest.importorskip("msgpack", reason="Flax's files need it")
tensorstore = pytest.importorskip("tensorstore", reason="Orbax needs it")
ml_dtypes = pytest.importorskip("ml_dtypes", reason="bfloat16 in NumPy is its")

RNG = np.random.default_rng(3)
D, F = 6, 10
W1, B1, W2, B2 = (RNG.standard_normal(shape).astype(np.float32) for shape in ((D, F), F, (F, D), D))
V = RNG.standard_normal((D, F)).astype(np.float32)


def same(network, activation, gated=False):
    """Whether a loaded network is this one."""
    weights = network.weights
    for got, expected in zip(weights[:4], (W1, B1, W2, B2), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert network.activation == activation
    assert weights.gated == gated


# HDF5


def legacy(path, layers, config=None):
    """A file in the layout of Keras 2."""
    with h5py.File(path, "w") as file:
        for name, (kernel, bias) in layers.items():
            file[f"model_weights/{name}/{name}/kernel:0"] = kernel
            file[f"model_weights/{name}/{name}/bias:0"] = bias
        if config is not None:
            file.attrs["model_config"] = json.dumps(config)


def dense(name, activation, *before):
    """A Dense layer of a Keras 2 graph."""
    nodes = [[[source, 0, 0, {}] for source in before]]
    return {"class_name": "Dense", "config": {"name": name, "activation": activation}, "inbound_nodes": nodes}


def test_a_graph_of_keras_tells_networks_and_their_activation(tmp_path):
    drop = {"class_name": "Dropout", "config": {"name": "drop"}, "inbound_nodes": [[["one", 0, 0, {}]]]}
    graph = [dense("one", "gelu", "in"), drop, dense("two", "linear", "drop"), dense("head", "softmax", "two")]
    config = {"class_name": "Functional", "config": {"layers": graph}}
    legacy(tmp_path / "m.h5", {"one": (W1, B1), "two": (W2, B2), "head": (W2.T, B1)}, config)
    (entry,) = checkpoint.find(tmp_path)
    same(entry.load(), "gelu")
    assert set(entry.tensors) == {f"model_weights/{n}/{n}/{v}:0" for n in ("one", "two") for v in ("kernel", "bias")}


def test_a_gated_graph_of_keras(tmp_path):
    times = {"class_name": "Multiply", "config": {"name": "x"}, "inbound_nodes": [[["g", 0, 0, {}], ["l", 0, 0, {}]]]}
    graph = [dense("l", "linear", "in"), dense("g", "silu", "in"), times, dense("o", "linear", "x")]
    legacy(tmp_path / "m.h5", {"g": (W1, B1), "l": (V, B1), "o": (W2, B2)}, {"config": {"layers": graph}})
    network = checkpoint.load(tmp_path)
    same(network, "silu", gated=True)
    np.testing.assert_array_equal(network.weights.V, V)


@pytest.mark.parametrize(
    "second",
    [
        {"class_name": "Activation", "config": {"name": "act", "activation": "leaky_relu"}},
        {"class_name": "ReLU", "config": {"name": "act", "max_value": 6.0}},
        {"class_name": "Activation", "config": {"name": "act", "activation": {"class_name": "gelu"}}},
    ],
)
def test_an_activation_that_keras_means_otherwise_is_asked_for(tmp_path, second):
    second = second | {"inbound_nodes": [[["one", 0, 0, {}]]]}
    graph = [dense("one", "linear", "in"), second, dense("two", "linear", "act")]
    legacy(tmp_path / "m.h5", {"one": (W1, B1), "two": (W2, B2)}, {"config": {"layers": graph}})
    with pytest.raises(checkpoint.Undecided) as caught:
        checkpoint.load(tmp_path)
    assert caught.value.argument == "activation"


def test_gpt2_of_tensorflow(tmp_path):
    """Its lists are numbered with _._ between, its biases are matrices of one row, its matrices called weight."""
    with h5py.File(tmp_path / "tf_model.h5", "w") as file:
        path = "transformer/tfgpt2/transformer/h_._0/mlp/"
        for name, array in (("c_fc", (W1, B1)), ("c_proj", (W2, B2))):
            file[f"{path}{name}/weight:0"], file[f"{path}{name}/bias:0"] = array[0], array[1][None]
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", "activation_function": "gelu_new"}))
    same(checkpoint.load(tmp_path), "gelu_tanh")


def numbered(path, layers):
    """A .weights.h5 in the layout of Keras 3."""
    with h5py.File(path, "w") as file:
        for place, (name, arrays) in enumerate(layers.items()):
            group = file.create_group(f"layers/dense{f'_{place}' if place else ''}/vars")
            group.attrs["name"] = name
            for number, array in enumerate(arrays):
                group[str(number)] = array


def test_without_a_config_the_order_of_keras_tells_a_dense_network_and_no_gated_one(tmp_path):
    numbered(tmp_path / "m.weights.h5", {"a": (W1, B1), "b": (W2, B2)})
    with pytest.raises(checkpoint.Undecided) as caught:
        checkpoint.load(tmp_path)
    assert caught.value.argument == "activation"
    same(checkpoint.load(tmp_path, activation="relu"), "relu")
    numbered(tmp_path / "m.weights.h5", {"g": (W1, B1), "l": (V, B1), "o": (W2, B2)})
    assert checkpoint.find(tmp_path, activation="silu") == []


def test_links_and_what_lies_outside_an_hdf5_file_are_not_followed(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = h5py.ExternalLink("/etc/hostname", "/")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file.create_dataset("x", (4,), "u1", external=[("/etc/hostname", 0, 4)])
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["x"] = h5py.SoftLink("/y")
    for name, words in (("a", "is a link"), ("b", "lies in other files"), ("c", "is a link")):
        with pytest.raises(CheckpointError, match=words):
            open_store(tmp_path / f"{name}.h5")


def test_a_dataset_of_no_bytes_and_a_file_cut_off_are_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (10**6, 10**6), "f4", chunks=(1000, 1000))
    with pytest.raises(CheckpointError, match="would have 4000000000000 bytes, and the file holds 0 of it"):
        open_store(tmp_path / "a.h5")
    numbered(tmp_path / "b.h5", {"a": (W1, B1), "b": (W2, B2)})
    data = (tmp_path / "b.h5").read_bytes()
    for length in (8, 40, 100, len(data) // 2):
        (tmp_path / "b.h5").write_bytes(data[:length])
        with pytest.raises(CheckpointError):
            open_store(tmp_path / "b.h5")


# Flax


def extension(array):
    """An array as flax packs it."""
    return msgpack.ExtType(1, msgpack.packb((array.shape, array.dtype.name, array.tobytes())))


BERT = {"model_type": "bert", "hidden_size": D, "intermediate_size": F, "hidden_act": "gelu"}


def flax_file(folder, arrays):
    """A flax_model.msgpack of BERT's names."""
    names = ("intermediate/dense/kernel", "intermediate/dense/bias", "output/dense/kernel", "output/dense/bias")
    tree = {}
    for name, array in zip(names, arrays, strict=True):
        inner = tree.setdefault("layer", {}).setdefault("0", {})
        *path, last = name.split("/")
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = array
    (folder / "flax_model.msgpack").write_bytes(msgpack.packb({"encoder": tree}))
    (folder / "config.json").write_text(json.dumps(BERT))
    return folder


def test_flax_msgpack(tmp_path):
    flax_file(tmp_path, map(extension, (W1, B1, W2, B2)))
    same(checkpoint.load(tmp_path), "gelu")
    (entry,) = checkpoint.find(tmp_path)
    assert any(line.startswith("file: msgpack is read whole") for line in entry.evidence)
    same(pickle.loads(pickle.dumps(entry)).load(), "gelu")
    half = [array.astype(ml_dtypes.bfloat16) for array in (W1, B1, W2, B2)]
    flax_file(tmp_path, map(extension, half))
    np.testing.assert_array_equal(checkpoint.load(tmp_path).weights.W1, half[0])


def test_chunks_of_flax_are_joined(tmp_path):
    parts = {str(n): extension(part) for n, part in enumerate(np.array_split(W1.reshape(-1), 4))}
    chunked = {"__msgpack_chunked_array__": True, "shape": {"0": D, "1": F}, "chunks": parts}
    flax_file(tmp_path, (chunked, extension(B1), extension(W2), extension(B2)))
    same(checkpoint.load(tmp_path), "gelu")
    del parts["2"]
    flax_file(tmp_path, (chunked, extension(B1), extension(W2), extension(B2)))
    with pytest.raises(CheckpointError, match="in chunks has lost some of them"):
        open_store(tmp_path)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xdf\xff\xff\xff\xff", "is damaged"),
        (b"\x81" * 5000, "is damaged"),
        (b"\x93\x01\x02\x03", "must hold a dictionary of arrays"),
        (msgpack.packb({"a": msgpack.ExtType(1, b"\xc1")}), "is damaged"),
        (
            msgpack.packb({"a": msgpack.ExtType(1, msgpack.packb(((10**9,), "float32", b"")))}),
            "doesn't fit its 0 bytes",
        ),
        (msgpack.packb({"a": msgpack.ExtType(1, msgpack.packb(((1,), "object", b"12345678")))}), "none that is known"),
        (msgpack.packb({"a": 1}), "must hold arrays under names"),
    ],
)
def test_hostile_msgpack(tmp_path, data, words):
    (tmp_path / "m.msgpack").write_bytes(data)
    with pytest.raises(CheckpointError, match=words):
        open_store(tmp_path)


# Orbax


def orbax(folder, arrays, ocdbt, driver):
    """Arrays as Orbax lays them out, by tensorstore."""
    base = {"driver": "file", "path": f"{folder}/"}
    tree = {}
    for name, array in arrays.items():
        store = {"driver": "ocdbt", "base": base, "path": f"{name}/"} if ocdbt else f"file://{folder}/{name}/"
        spec = {"driver": driver, "kvstore": store}
        tensorstore.open(spec, create=True, dtype=array.dtype.name, shape=array.shape).result().write(array).result()
        keys = [{"key": part, "key_type": 2} for part in name.split(".")]
        tree[name] = {"key_metadata": keys, "value_metadata": {"value_type": "jax.Array"}}
    (folder / "_METADATA").write_text(json.dumps({"tree_metadata": tree, "use_zarr3": driver == "zarr3"}))
    return folder


@pytest.mark.parametrize("ocdbt", [True, False])
@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
@pytest.mark.parametrize("listed", [True, False])
def test_orbax(tmp_path, ocdbt, driver, listed):
    home = tmp_path / "default"
    home.mkdir()
    names = ("wi.kernel", "wi.bias", "wo.kernel", "wo.bias")
    orbax(
        home, {f"params.layers_0.mlp.{n}.value": a for n, a in zip(names, (W1, B1, W2, B2), strict=True)}, ocdbt, driver
    )
    if not listed:
        (home / "_METADATA").write_text(json.dumps({"use_zarr3": driver == "zarr3"}))
    for path in (home, tmp_path):
        same(checkpoint.load(path, activation="gelu"), "gelu")
    (entry,) = checkpoint.find(home, activation="gelu")
    same(pickle.loads(pickle.dumps(entry)).load(), "gelu")


@pytest.mark.parametrize("axis", [0, 1])
def test_layers_that_a_scan_keeps_in_one_array_come_out_one_by_one(tmp_path, axis):
    matrices = {name: [RNG.standard_normal(s).astype(np.float32) for _ in range(3)] for name, s in SCANNED.items()}
    arrays = {f"params.decoder.layers.mlp.{name}.kernel": np.stack(m, axis) for name, m in matrices.items()}
    orbax(tmp_path, arrays, True, "zarr")
    found = checkpoint.find(tmp_path, activation="silu")
    assert [entry.layer for entry in found] == [0, 1, 2]
    for entry in found:
        weights = entry.load().weights
        for got, name in ((weights.W1, "wi_0"), (weights.V, "wi_1"), (weights.W2, "wo")):
            np.testing.assert_array_equal(got, matrices[name][entry.layer])
    index = f"[{', '.join([':'] * axis + ['2'])}]"
    assert found[2].tensors[0] == f"params.decoder.layers.mlp.wi_0.kernel{index}"


SCANNED = {"wi_0": (D, F), "wi_1": (D, F), "wo": (F, D)}


def test_hostile_orbax(tmp_path):
    orbax(tmp_path, {"a.kernel": W1}, False, "zarr")
    metadata = json.loads((tmp_path / "a.kernel" / ".zarray").read_text())
    (tmp_path / "a.kernel" / ".zarray").write_text(json.dumps(metadata | {"shape": [10**9, 10**9]}))
    with pytest.raises(CheckpointError, match="bytes, and the file holds"):
        open_store(tmp_path)
    (tmp_path / "a.kernel" / ".zarray").write_text("{")
    with pytest.raises(CheckpointError, match="can't be opened by tensorstore"):
        open_store(tmp_path)
    row = {"key_metadata": [{"key": "../../etc"}], "value_metadata": {"value_type": "jax.Array"}}
    (tmp_path / "_METADATA").write_text(json.dumps({"tree_metadata": {"a": row}}))
    with pytest.raises(CheckpointError, match="and has none"):
        open_store(tmp_path)
