"""Paths, directories and shards: which files make a checkpoint."""

import json
from pathlib import Path

import pytest

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._tensors.store import open_store
from tests.checkpoint.files import same, write

save_numpy = pytest.importorskip("safetensors.numpy").save_file


def write_index(directory, places, name="model.safetensors.index.json"):
    """An index as save_pretrained writes it."""
    text = {"metadata": {"total_size": 1}, "weight_map": places}
    (directory / name).write_text(json.dumps(text))


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


def test_a_file_of_another_kind_is_called_so(tmp_path):
    (tmp_path / "x.safetensors").write_text("a table, a picture: anything but tensors")
    with pytest.raises(CheckpointError, match="no safetensors file"):
        open_store(tmp_path / "x.safetensors")
