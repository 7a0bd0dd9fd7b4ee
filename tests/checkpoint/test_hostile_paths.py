"""What is no file, no path or another format: refused by name, never executed."""

import io
import os
import pickle
import re
import zipfile

import numpy as np
import pytest

from portable_ffn.checkpoint._files.save import save_tensors


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
        ("_CHECKPOINT_METADATA", "part of an Orbax checkpoint"),
        ("model.onnx", "an ONNX model"),
        ("saved_model.pb", "a TensorFlow file"),
        ("model.ckpt-1000.index", "a TensorFlow file"),
        ("model.tflite", "a TensorFlow file"),
        ("weights.pkl", "a Python pickle; no pickle is executed"),
        ("weights.npy", "a NumPy file of one array"),
        ("mlp.eqx", "leaves of Equinox"),
        ("model.tensors", "a tensorizer file"),
        ("openvino_model.xml", "a model of OpenVINO"),
        ("__0_0.distcp", "part of a distributed PyTorch checkpoint (DCP); its .metadata is a pickle"),
        (".metadata", "part of a distributed PyTorch checkpoint"),
        ("latest_checkpointed_iteration.txt", "part of a Megatron checkpoint"),
        ("model.nemo", "a NeMo archive"),
    ],
)
def test_a_directory_of_another_format_is_refused_by_name(tmp_path, refused, name, words):
    (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    refused(tmp_path, f"{re.escape(words)}.*Save the model as safetensors")
    refused(tmp_path / name, re.escape(words))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pytorch_model.bin", "is a Python pickle; no pickle is executed"),
        ("model.pt", "is a Python pickle; no pickle is executed"),
        ("consolidated.00.pth", "is a Python pickle; no pickle is executed"),
        ("last.ckpt", "is a Python pickle; no pickle is executed"),
        ("tf_model.h5", "must be an HDF5 file, and is damaged"),
        ("model.weights.h5", "must be an HDF5 file, and is damaged"),
        ("model.keras", "must be an HDF5 file, and is damaged"),
        ("flax_model.msgpack", "must be Flax msgpack, and is damaged"),
        ("weights.npz", "must be an archive of numpy.savez, and is damaged"),
    ],
)
def test_a_pickle_under_the_name_of_a_container_that_is_read_is_never_run(tmp_path, refused, name, words):
    (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    refused(tmp_path, words)
    refused(tmp_path / name, words)


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
