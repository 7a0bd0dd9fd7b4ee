"""Damaged, forged and foreign files: one clear error each, at once, without a large allocation; never a wrong value."""

import io
import json
import os
import pickle
import random
import re
import time
import tracemalloc
import zipfile

import numpy as np
import pytest

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.save import save_tensors
from portable_ffn.checkpoint._tensors.store import open_store

F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
DATA = np.array([1.5, -2.5], np.float32).tobytes()


def packed(header, data=DATA, length=None):
    """The bytes of a safetensors file with this header, which may be bytes or what JSON can say."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    """One tensor of a header."""
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.fixture
def refused():
    """A function that checks that a path is refused with these words, quickly and in little memory."""

    def read(path):
        store = open_store(path)
        for name in store.logical:
            store.read_logical(name)

    def check(path, words, error=CheckpointError):
        start = time.process_time()  # the machine's other work doesn't count
        with pytest.raises(error, match=words) as caught:
            read(path)
        assert time.process_time() - start < 1
        assert type(caught.value) is error
        assert len(str(caught.value)) < 1500
        assert "\n" not in str(caught.value)
        tracemalloc.start()
        try:
            with pytest.raises(error):
                read(path)
            assert tracemalloc.get_traced_memory()[1] < 2**24
        finally:
            tracemalloc.stop()

    return check


# One file

HEADERS = {
    "length 2**63": (packed({"a": F32}, length=2**63), "9223372036854775808 bytes; 100000000 are the limit"),
    "length 2**64 - 1": (packed({"a": F32}, length=2**64 - 1), "are the limit"),
    "length over the limit": (packed({"a": F32}, length=100_000_001), "100000001 bytes; 100000000 are the limit"),
    "length past the end": (packed({"a": F32}, length=1000), "the header has 1000 bytes.*cut off"),
    "length too short": (packed({"a": F32}, length=20), "must be JSON"),
    "length 0": (packed(b"", bytes(16)), "must begin with a brace"),
    "empty file": (b"", "has 0 bytes; a safetensors file has 10"),
    "seven bytes": (bytes(7), "has 7 bytes"),
    "length alone": ((2).to_bytes(8, "little"), "has 8 bytes"),
    "zeros": (bytes(1000), "must begin with a brace"),
    "NUL padding": (packed(json.dumps({"a": F32}).encode() + bytes(8)), "must be JSON"),
    "space before": (packed(b" " + json.dumps({"a": F32}).encode()), "must begin with a brace"),
    "byte order mark": (packed(b"\xef\xbb\xbf" + json.dumps({"a": F32}).encode()), "must begin with a brace"),
    "two objects": (packed(b"{}{}", b""), "must be JSON.*Extra data"),
    "a list": (packed(b"[1]", bytes(8)), "must begin with a brace"),
    "not JSON": (packed(b"{a: 1}"), "must be JSON"),
    "single quotes": (packed(b"{'a': 1}"), "must be JSON"),
    "not UTF-8": (packed(b'{"\xff": 1}'), "must be JSON in UTF-8"),
    "UTF-16": (packed('{"a": 1}'.encode("utf-16-le")), "must be JSON"),
    "control character": (packed(b'{"a\x01": 1}'), "must be JSON"),
    "half a surrogate pair": (packed(rb'{"\ud800": {"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'), "in UTF-8"),
    "half a pair, upper case": (packed(rb'{"\uD800": {"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'), "in UTF-8"),
    "nested arrays": (packed(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "nested too deeply"),
    "nested objects": (packed(b'{"a":' * 100_000 + b"1" + b"}" * 100_000), "nested too deeply"),
    "NaN": (packed(b'{"a": NaN}'), "NaN is not JSON"),
    "Infinity": (packed(b'{"a": -Infinity}'), "-Infinity is not JSON"),
    "1e999": (packed(b'{"a": 1e999}'), "beyond float64"),
    "an integer of 5000 digits": (packed(b'{"a": ' + b"9" * 5000 + b"}"), "must be JSON"),
    "twice the same tensor": (packed(b'{"a": %b, "a": %b}' % (2 * (json.dumps(F32).encode(),))), "'a' stands twice"),
    "twice the same key": (
        packed(b'{"a": {"dtype":"F32","dtype":"I32","shape":[2],"data_offsets":[0,8]}}'),
        "'dtype' stands twice",
    ),
    "twice the same text": (packed(b'{"__metadata__": {"a": "b", "a": "c"}}', b""), "'a' stands twice"),
    "metadata no object": (packed({"__metadata__": ["a"], "a": F32}), "__metadata__ must map"),
    "metadata no strings": (packed({"__metadata__": {"a": 1}, "a": F32}), "__metadata__ must map"),
    "metadata null": (packed({"__metadata__": None, "a": F32}), "__metadata__ must map"),
    "entry no object": (packed({"a": [1]}), "'a' must have dtype, shape and data_offsets"),
    "entry null": (packed({"a": None}), "'a' must have dtype, shape and data_offsets"),
    "entry without dtype": (packed({"a": {"shape": [2], "data_offsets": [0, 8]}}), "'a' must have dtype"),
    "entry with more": (packed({"a": F32 | {"strides": [1]}}), "'a' must have dtype, shape and data_offsets, and"),
    "unknown dtype": (packed({"a": entry("F31")}), "unknown dtype 'F31'; known are BOOL"),
    "dtype in small letters": (packed({"a": entry("f32")}), "unknown dtype 'f32'"),
    "dtype no string": (packed({"a": entry(32)}), "unknown dtype 32;"),
    "dtype a list": (packed({"a": entry(["F32"])}), "unknown dtype"),
    "shape no list": (packed({"a": {"dtype": "F32", "shape": 2, "data_offsets": [0, 8]}}), "shape must be a list"),
    "shape negative": (packed({"a": entry(shape=(-2,))}), "shape must be a list"),
    "shape of negatives": (packed({"a": entry(shape=(-1, -2))}), "shape must be a list"),
    "shape fractional": (packed({"a": entry(shape=(2.0,))}), "shape must be a list"),
    "shape boolean": (packed({"a": entry(shape=(2, True))}), "shape must be a list"),
    "shape a string": (packed({"a": entry(shape=("2",))}), "shape must be a list"),
    "shape null": (packed({"a": {"dtype": "F32", "shape": None, "data_offsets": [0, 8]}}), "shape must be a list"),
    "33 axes": (packed({"a": entry(shape=(2, *[1] * 32))}), "at most 32"),
    "100000 axes": (packed({"a": entry(shape=[1] * 100_000)}), "at most 32"),
    "shape 2**40 x 2**40": (packed({"a": entry(shape=(2**40, 2**40))}), "doesn't fit its 8 bytes"),
    "shape 2**31 x 2**31 x 2": (packed({"a": entry("U8", (2**31, 2**31, 4), (0, 0))}, b""), "doesn't fit its 0 bytes"),
    "shape that wraps around": (packed({"a": entry(shape=(2**62, 2, 2))}), "doesn't fit its 8 bytes"),
    "shape 2**63": (packed({"a": entry(shape=(2**63, 0), offsets=(0, 0))}, b""), "shape must be a list"),
    "empty but huge": (packed({"a": entry(shape=(0, 2**40, 2**40), offsets=(0, 0))}, b""), "doesn't fit its 0 bytes"),
    "too few bytes": (packed({"a": entry(shape=(3,))}), "doesn't fit its 8 bytes"),
    "too many bytes": (packed({"a": entry(shape=(1,))}), "doesn't fit its 8 bytes"),
    "half a byte": (packed({"a": entry("F4", (3,), (0, 2))}, b"12"), "doesn't fit its 2 bytes"),
    "one offset": (packed({"a": entry(offsets=(8,))}), r"data_offsets must be \[begin, end\]"),
    "three offsets": (packed({"a": entry(offsets=(0, 4, 8))}), "data_offsets must be"),
    "offsets backwards": (packed({"a": entry(offsets=(8, 0))}), "data_offsets must be"),
    "offsets negative": (packed({"a": entry(offsets=(-8, 0))}), "data_offsets must be"),
    "offsets fractional": (packed({"a": entry(offsets=(0.0, 8.0))}), "data_offsets must be"),
    "offsets of 2**64": (packed({"a": entry(offsets=(2**64, 2**64 + 8))}), "data_offsets must be"),
    "offsets past the end": (packed({"a": entry(offsets=(0, 8))}, b"1234"), "ends? at byte.*cut off"),
    "offsets far past the end": (packed({"a": entry(offsets=(2**62, 2**62 + 8))}), "there is a hole"),
    "one byte short": (packed({"a": F32}, DATA[:-1]), "cut off"),
    "one byte over": (packed({"a": F32}, DATA + b"x"), "the rest belongs to no tensor"),
    "data without tensors": (packed({}), "the rest belongs to no tensor"),
    "overlapping": (packed({"a": F32, "b": entry(offsets=(4, 12))}, bytes(12)), "'b' begins .*they overlap"),
    "the same bytes twice": (packed({"a": F32, "b": F32}), "they overlap"),
    "one inside the other": (
        packed({"a": entry(shape=(4,), offsets=(0, 16)), "b": entry(offsets=(4, 12))}, bytes(16)),
        "they overlap",
    ),
    "a hole before": (packed({"a": entry(offsets=(4, 12))}, bytes(12)), "'a' begins .*the header ends.*hole"),
    "a hole between": (packed({"a": F32, "b": entry(offsets=(12, 20))}, bytes(20)), "'b' begins .*hole"),
    "empty inside another": (packed({"a": F32, "b": entry(shape=(0,), offsets=(4, 4))}), "they overlap"),
}  # fmt: skip


@pytest.mark.parametrize("case", HEADERS)
def test_a_damaged_header_is_refused(tmp_path, refused, case):
    data, words = HEADERS[case]
    (tmp_path / "model.safetensors").write_bytes(data)
    (tmp_path / "config.json").write_text("{}")
    refused(tmp_path / "model.safetensors", words)
    refused(tmp_path, words)


def test_a_header_over_the_limit_is_refused_unread(tmp_path, refused):
    path = tmp_path / "model.safetensors"
    path.write_bytes((200_000_000).to_bytes(8, "little") + b"{")
    os.truncate(path, 10**12)
    refused(path, "200000000 bytes; 100000000 are the limit")
    for name in ("config.json", "model.safetensors.index.json"):
        (tmp_path / name).write_bytes(b"{")
        os.truncate(tmp_path / name, 10**12)
        refused(tmp_path, "JSON of 1000000000000 bytes; 100000000 are the limit")


def test_a_file_that_is_no_file_is_refused(tmp_path, refused):
    (tmp_path / "x.safetensors").mkdir()
    refused(tmp_path / "x.safetensors", "has no checkpoint; config.json and model.safetensors are looked for")
    refused(tmp_path, "is a directory; a file must stand here")
    os.mkfifo(tmp_path / "pipe.safetensors")
    refused(tmp_path / "pipe.safetensors", "is no regular file")
    refused("/dev/zero", "is no regular file")
    (tmp_path / "config" / "config.json").mkdir(parents=True)
    save_tensors(tmp_path / "config" / "model.safetensors", {})
    refused(tmp_path / "config", "config.json: is a directory")


def test_links_that_lead_nowhere_or_in_a_circle_are_refused(tmp_path, refused):
    for name, target in (("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.safetensors").symlink_to(f"{target}.safetensors")
    refused(tmp_path / "a.safetensors", "can't be opened: .*symbolic link")
    loop = tmp_path / "loop"
    loop.mkdir()
    (loop / "model.safetensors").symlink_to("model.safetensors")
    refused(loop, "can't be opened")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "model.safetensors").symlink_to("gone")
    refused(broken, "model.safetensors.*isn't there")
    refused(broken / "model.safetensors", "no such file", FileNotFoundError)
    (tmp_path / "whole").mkdir()
    save_tensors(tmp_path / "whole" / "model.safetensors", {})
    (tmp_path / "whole" / "config.json").symlink_to("gone")
    refused(tmp_path / "whole", "config.json: is a link to a file that isn't there")


@pytest.mark.parametrize("path", ["a\0b", "x" * 300, "x/" * 3000])
def test_a_path_that_cannot_be_is_refused(tmp_path, refused, path):
    refused(tmp_path / path, "can't be opened")


def torch_zip():
    """A zip archive as torch.save writes it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"a": 1}))
    return file.getvalue()


class Bomb:
    """What a pickle does when it is loaded."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (pickle.dumps(Bomb()), "is a Python pickle, not a safetensors file"),
        (pickle.dumps({"a": np.zeros(3)}, protocol=2), "is a Python pickle"),
        (pickle.dumps({"a": 1}, protocol=0), "is no safetensors file|are the limit"),
        (torch_zip(), "is a zip archive"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), "is an HDF5 file"),
        (b"GGUF" + bytes(100), "is a GGUF file"),
        (b"\x93NUMPY" + bytes(100), "is a NumPy file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a Git LFS pointer.*git lfs pull"),
        (b"<!DOCTYPE html><html>not found</html>", "is an HTML page"),
    ],
)
@pytest.mark.parametrize("name", ["model.safetensors", "blob"])
def test_another_format_under_a_false_name_is_refused_and_never_loaded(tmp_path, refused, name, data, words):
    (tmp_path / name).write_bytes(data)
    refused(tmp_path / name, words)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pytorch_model.bin", "pytorch_model.bin is a PyTorch file; pickles can run code and are never loaded"),
        ("pytorch_model-00001-of-00002.bin", "PyTorch file"),
        ("consolidated.00.pth", "PyTorch file"),
        ("last.ckpt", "PyTorch file"),
        ("model.pt", "PyTorch file"),
        ("weights.pkl", "PyTorch file"),
        ("tf_model.h5", "a Keras or HDF5 file"),
        ("model.weights.h5", "a Keras or HDF5 file"),
        ("model.keras", "a Keras or HDF5 file"),
        ("flax_model.msgpack", "a Flax msgpack file"),
        ("_CHECKPOINT_METADATA", "an Orbax checkpoint"),
        ("manifest.ocdbt", "an Orbax checkpoint"),
        ("model.onnx", "an ONNX model"),
        ("saved_model.pb", "a TensorFlow file"),
        ("model.ckpt-1000.index", "a TensorFlow file"),
        ("model.tflite", "a TensorFlow file"),
        ("weights.npz", "a NumPy archive"),
        ("__0_0.distcp", "a distributed PyTorch checkpoint"),
        (".metadata", "a distributed PyTorch checkpoint"),
        ("latest_checkpointed_iteration.txt", "a distributed PyTorch checkpoint"),
        ("model.nemo", "an archive or a model of another tool"),
    ],
)
def test_a_directory_of_another_format_is_refused_by_name(tmp_path, refused, name, words):
    (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    refused(tmp_path, f"{re.escape(words)}.*Save the model as safetensors")
    refused(tmp_path / name, re.escape(words))


def test_a_directory_of_nothing_says_what_is_looked_for(tmp_path, refused):
    refused(tmp_path, "has no checkpoint; config.json and model.safetensors are looked for")
    (tmp_path / "config.json").write_text("{}")
    refused(tmp_path, "has no checkpoint")
    refused(tmp_path / "config.json", "holds no tensors; give the path of the directory")


# Adapters


@pytest.mark.parametrize(
    "name",
    ["adapter_config.json", "adapter_model.safetensors", "adapter_model.bin", "adapter_model-1-of-2.safetensors"],
)
def test_an_adapter_beside_its_base_is_refused_never_ignored(tmp_path, refused, name):
    save_tensors(tmp_path / "model.safetensors", {"model.layers.0.mlp.up_proj.weight": np.zeros((2, 2))})
    (tmp_path / name).write_bytes(b"{}")
    refused(tmp_path, rf"{name} belongs to a PEFT \(LoRA\) adapter, which changes its base; merge it")
    (tmp_path / "model.safetensors").unlink()
    refused(tmp_path, "merge it")
    refused(tmp_path / name, "merge it")


@pytest.mark.parametrize(
    "end",
    [
        "lora_A.weight",
        "lora_B.default.weight",
        "lora_embedding_A",
        "lora_magnitude_vector",
        "ia3_l",
        "hada_w1_a",
        "lokr_w2_b",
        "oft_r.default",
        "boft_R",
        "vera_lambda_b",
    ],
)
def test_the_tensors_of_an_adapter_are_refused_by_name(tmp_path, refused, end):
    name = f"base_model.model.model.layers.0.mlp.up_proj.{end}"
    save_tensors(
        tmp_path / "x.safetensors", {name: np.zeros((2, 2)), "model.layers.0.mlp.up_proj.weight": np.zeros((2, 2))}
    )
    refused(tmp_path / "x.safetensors", rf"{re.escape(name)}' belongs to a PEFT \(LoRA\) adapter")


# The config

CONFIGS = {
    "not JSON": (b"{", "must be JSON"),
    "empty": (b"", "must be JSON"),
    "a list": (b"[]", "must be a JSON object, got list"),
    "null": (b"null", "must be a JSON object, got NoneType"),
    "NaN": (b'{"eps": NaN}', "NaN is not JSON"),
    "twice": (b'{"hidden_act": "relu", "hidden_act": "gelu"}', "'hidden_act' stands twice"),
    "twice within": (b'{"text_config": {"a": 1, "a": 1}}', "'a' stands twice"),
    "nested": (b'{"a":' * 100_000, "nested too deeply"),
    "5000 digits": (b'{"hidden_size": ' + b"1" * 5000 + b"}", "must be JSON"),
    "1e400": (b'{"eps": 1e400}', "beyond float64"),
    "not UTF-8": (b'{"a": "\xff"}', "must be JSON in UTF-8"),
    "half a surrogate pair": (rb'{"a": ["\ud83d"]}', "in UTF-8"),
    "NULs": (bytes(100), "must be JSON"),
    "a block of no size": (b'{"quantization_config": {"weight_block_size": [0, 0]}}', "two whole numbers"),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_a_damaged_config_is_refused(tmp_path, refused, case):
    data, words = CONFIGS[case]
    save_tensors(tmp_path / "model.safetensors", {"a": np.zeros(2)})
    (tmp_path / "config.json").write_bytes(data)
    refused(tmp_path, words)
    assert set(open_store(tmp_path / "model.safetensors").tensors) == {"a"}


# The index and its shards

ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"


@pytest.fixture
def sharded(tmp_path):
    """A directory with two shards, to which an index can be given."""

    def build(places=None, text=None):
        save_tensors(tmp_path / ONE, {"a": np.zeros(2), "b": np.ones(3)})
        save_tensors(tmp_path / TWO, {"c": np.full(4, 2.0)})
        if text is None:
            text = json.dumps({"weight_map": {"a": ONE, "b": ONE, "c": TWO} if places is None else places}).encode()
        (tmp_path / INDEX).write_bytes(text)
        return tmp_path

    return build


PLACES = {
    "a file that isn't there": ({"a": ONE, "b": ONE, "c": "model-00003-of-00003.safetensors"}, "isn't there"),
    "above": ({"a": "../../etc/x.safetensors"}, "outside its directory"),
    "above, later": ({"a": "x/../../y.safetensors"}, "outside its directory"),
    "absolute": ({"a": "/etc/x.safetensors"}, "outside its directory"),
    "absolute on Windows": ({"a": "C:\\x.safetensors"}, "outside its directory"),
    "above on Windows": ({"a": "..\\x.safetensors"}, "outside its directory"),
    "a share of Windows": ({"a": "\\\\host\\share\\x.safetensors"}, "outside its directory"),
    "a NUL": ({"a": "x\0.safetensors"}, "can't be opened"),
    "a long name": ({"a": "x" * 300 + ".safetensors"}, "can't be opened"),
    "a pickle": ({"a": "pytorch_model.bin"}, r"only \.safetensors files are read"),
    "an empty name": ({"a": ""}, r"only \.safetensors files are read"),
    "the directory": ({"a": "."}, r"only \.safetensors files are read"),
    "a number": ({"a": 1}, "weight_map must map"),
    "a list": (["a"], "weight_map must map"),
    "nothing": ({}, "weight_map must map"),
    "a shard unnamed": ({"a": ONE, "b": ONE}, f"{TWO} is not named by {INDEX}; move it away"),
    "a tensor unnamed": ({"a": ONE, "c": TWO}, "doesn't name 'b', which is in model-00001"),
    "a tensor in the wrong shard": ({"a": ONE, "b": TWO, "c": TWO}, "puts 'b' into model-00002.*doesn't hold it"),
    "a tensor that isn't there": ({"a": ONE, "b": ONE, "c": TWO, "d": TWO}, "puts 'd' into .*doesn't hold it"),
}


@pytest.mark.parametrize("case", PLACES)
def test_an_index_that_does_not_fit_is_refused(sharded, refused, case):
    places, words = PLACES[case]
    refused(sharded(places), words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "must be JSON"),
        (b"[]", "must be a JSON object"),
        (b"{}", "weight_map must map"),
        (b'{"weight_map": {"a": "%b", "a": "%b"}}' % (ONE.encode(), TWO.encode()), "'a' stands twice"),
        (b'{"weight_map": {}, "weight_map": {}}', "'weight_map' stands twice"),
        (b'{"weight_map": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"metadata": {"total_size": NaN}}', "NaN is not JSON"),
        (b'{"metadata": {"total_size": Infinity}}', "Infinity is not JSON"),
        (rb'{"weight_map": {"\udfff": "x.safetensors"}}', "in UTF-8"),
    ],
)
def test_a_damaged_index_is_refused(sharded, refused, text, words):
    directory = sharded(text=text)
    refused(directory, words)
    refused(directory / INDEX, words)


def test_a_tensor_in_two_shards_is_refused(sharded, refused):
    directory = sharded()
    save_tensors(directory / TWO, {"c": np.full(4, 2.0), "a": np.zeros(2)})
    refused(directory, f"{TWO}: tensor 'a' is in {ONE} too; it must be in one file")
    (directory / INDEX).unlink()
    refused(directory, "tensor 'a' is in .* too")


@pytest.mark.parametrize("name", ["model-00003-of-00003.safetensors", "extra.safetensors", "model.safetensors"])
def test_a_stray_file_beside_an_index_is_refused_but_the_index_can_be_opened(sharded, refused, name):
    directory = sharded()
    save_tensors(directory / name, {"d": np.zeros(2)})
    refused(directory, f"{name} is not named by {INDEX}; move it away, or give the path of the index")
    assert set(open_store(directory / INDEX).tensors) == {"a", "b", "c"}


def test_a_damaged_shard_is_named(sharded, refused):
    directory = sharded()
    os.truncate(directory / TWO, (directory / TWO).stat().st_size - 1)
    refused(directory, f"{TWO}: .*cut off")
    (directory / TWO).unlink()
    refused(directory, f"names the file '{TWO}', which isn't there")
    (directory / TWO).mkdir()
    refused(directory, f"{TWO}: is a directory")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([ONE], r"has shards \[1\] of model-\*-of-00002.safetensors, and no index; 2 are needed"),
        ([TWO, "model-00003-of-00003.safetensors"], "shards of several sets"),
        (["a-1-of-2.safetensors", "b-2-of-2.safetensors"], "shards of several sets"),
        (["a-2-of-2.safetensors", "a-3-of-2.safetensors"], r"has shards \[2, 3\]"),
        (["a-0-of-3.safetensors", "a-1-of-3.safetensors", "a-3-of-3.safetensors"], r"has shards \[0, 1, 3\]"),
        (["a-1-of-2.safetensors", "a-01-of-2.safetensors"], r"has shards \[1, 1\]"),
        (["a.safetensors", "b.safetensors"], "has several files, a.safetensors, b.safetensors, and no index; give the"),
        (["a.safetensors", ONE, TWO], "has several files"),
        (["model.safetensors", ONE], f"has model.safetensors and {ONE}; give the path"),
    ],
)
def test_files_that_make_no_checkpoint_without_an_index_are_refused(tmp_path, refused, names, words):
    for number, name in enumerate(names):
        save_tensors(tmp_path / name, {f"tensor{number}": np.zeros(2)})
    refused(tmp_path, words)


def test_several_indexes_are_refused(sharded, refused):
    directory = sharded()
    (directory / "other.safetensors.index.json").write_bytes((directory / INDEX).read_bytes())
    refused(directory, f"several indexes, {INDEX}, other.safetensors.index.json; give the path of the one")


# Mutations

WORDS = [b"2", b"-1", b"1e3", b"18446744073709551616", b"true", b"null", b"[]", b"{}", b'"F16"', b'"', b"}", b"NaN"]


def mutated(data, rng):
    """The bytes with one to three small faults: bytes, words, pieces lost, doubled or moved."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 1, 2, 8, 40)))
        kind = rng.randrange(6)
        if kind == 0:
            data[at:end] = rng.randbytes(end - at)
        elif kind == 1:
            del data[at:end]
        elif kind == 2:
            data[at:at] = data[at:end]
        elif kind == 3:
            data[at:end] = rng.choice(WORDS)
        elif kind == 4:
            numbers = list(re.finditer(rb"\d+", bytes(data)))
            if numbers:
                start, stop = rng.choice(numbers).span()
                data[start:stop] = str(rng.choice((0, 1, 2, 4, 8, 12, 16, 2**31, 2**40, 2**63))).encode()
        else:
            del data[at:]
    return bytes(data)


TENSORS = {
    "layers.0.up.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "layers.0.up.bias": np.arange(2, dtype=np.float16),
    "layers.0.down.weight": np.arange(6, dtype=np.int64).reshape(3, 2),
    "empty": np.zeros((0, 3), np.float32),
    "scalar": np.array(2.5),
}


def right(store):
    """Whether each tensor that the store has is the bytes that its header says, whole and inside its file."""
    for name, info in store.tensors.items():
        data = info.file.read_bytes()
        assert 0 <= info.offset <= info.offset + info.nbytes <= len(data)
        array = store.read(name)
        assert array.shape == info.shape
        assert array.tobytes() == data[info.offset : info.offset + info.nbytes]


def header_of(path):
    """The end of a file's header."""
    return 8 + int.from_bytes(path.read_bytes()[:8], "little")


def test_mutated_headers_give_the_right_bytes_or_an_error(tmp_path):
    rng = random.Random(4)
    path = tmp_path / "model.safetensors"
    save_tensors(path, TENSORS, {"form": "dense"})
    original, header = path.read_bytes(), header_of(path)
    refused = 0
    for number in range(3000):
        path = tmp_path / f"{number}.safetensors"  # writing over a file would wait for the disk
        text = mutated(original[8:header], rng)
        length = len(text) if rng.random() < 0.9 else rng.choice((0, 1, header, 2**32, 2**63))
        path.write_bytes(length.to_bytes(8, "little") + text + original[header:])
        try:
            right(open_store(path))
        except CheckpointError:
            refused += 1
        finally:
            path.unlink()
    assert 1500 < refused < 3000


def test_mutated_files_give_the_right_bytes_or_an_error(tmp_path):
    rng = random.Random(5)
    path = tmp_path / "model.safetensors"
    save_tensors(path, TENSORS)
    original = path.read_bytes()
    refused = 0
    for number in range(1500):
        path = tmp_path / f"{number}.safetensors"
        path.write_bytes(mutated(original, rng))
        try:
            right(open_store(path))
        except CheckpointError:
            refused += 1
        finally:
            path.unlink()
    assert 500 < refused < 1500


@pytest.mark.parametrize("name", [INDEX, "config.json"])
def test_mutated_indexes_and_configs_give_the_right_bytes_or_an_error(sharded, name):
    rng = random.Random(6)
    directory = sharded()
    config = {"model_type": "llama", "hidden_size": 16, "quantization_config": {"weight_block_size": [128, 128]}}
    (directory / "config.json").write_text(json.dumps(config))
    expected = {name: open_store(directory).read(name).tobytes() for name in "abc"}
    original = (directory / name).read_bytes()
    refused = 0
    for _ in range(1500):
        (directory / name).unlink()
        (directory / name).write_bytes(mutated(original, rng))
        try:
            store = open_store(directory)
            assert {name: store.read(name).tobytes() for name in store.tensors} == expected
        except CheckpointError:
            refused += 1
    assert 500 < refused < 1500
