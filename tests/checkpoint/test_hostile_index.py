"""Damaged configs and indexes, shards that are missing, stray, or there twice."""

import os

import numpy as np
import pytest

from portable_ffn.checkpoint._files.save import save_tensors
from portable_ffn.checkpoint._tensors.store import open_store
from tests.checkpoint.hostile import INDEX, ONE, TWO

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
