"""What `apply` refuses: inputs that are no array, outputs that can't be written, layers that aren't there."""

import os
import re

import numpy as np
import pytest

from portable_ffn.command._words import as_options
from portable_ffn.testing import assert_agrees
from tests.command.applied import expected, left, refused, rows, run

safetensors = pytest.importorskip("safetensors.numpy", reason="writing checkpoints needs safetensors")


def test_an_input_that_is_no_array(tmp_path, model, capsys):
    y = tmp_path / "y.npy"
    for name, content, told in [
        ("absent.npy", None, "absent.npy: no such file"),
        ("empty.npy", b"", r"must be an \.npy file of numbers, and whole"),
        ("text.npy", b"1 2 3\n", r"must be an \.npy file of numbers, and whole"),
        ("text.csv", b"1 2 3\n", r"must be an \.npy file or a \.zarr directory"),
    ]:
        if content is not None:
            (tmp_path / name).write_bytes(content)
        assert re.search(told, refused(capsys, model, tmp_path / name, y))
    np.save(tmp_path / "x.npy", rows(40, 8))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-1])
    assert "and whole" in refused(capsys, model, tmp_path / "cut.npy", y)
    with (tmp_path / "archive.npy").open("wb") as file:
        np.savez(file, a=rows(2, 8), b=rows(2, 8))
    assert "an archive of several" in refused(capsys, model, tmp_path / "archive.npy", y)
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (rows(5, 7), r"must have shape \(\.\.\., d_model\) with d_model = 8 as encoder\.layer\.0 has, got \(5, 7\)"),
        (np.float32(1), r"at least one axis, got a single number"),
        (rows(5, 8).astype(complex), r"must hold real floating numbers, integers or booleans, got complex128"),
        (np.array(["a"] * 8), r"must hold real floating numbers.*got <U1"),
        (np.zeros((5, 8), "V2"), r"NumPy's format has no bfloat16, save it as float32"),
    ],
)
def test_an_array_that_does_not_fit(tmp_path, model, capsys, array, told):
    np.save(tmp_path / "x.npy", array)
    assert re.search(told, refused(capsys, model, tmp_path / "x.npy", tmp_path / "y.npy"))
    assert left(tmp_path) == []


def test_objects_are_never_unpickled(tmp_path, model, capsys):
    np.save(tmp_path / "x.npy", np.array([{}] * 8, dtype=object), allow_pickle=True)
    assert "must be an .npy file of numbers" in refused(capsys, model, tmp_path / "x.npy", tmp_path / "y.npy")


def test_an_output_that_can_not_be_written(tmp_path, model, capsys):
    x = tmp_path / "x.npy"
    np.save(x, rows(40, 8))
    before = x.read_bytes()
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "link.npy").symlink_to(x)
    for output, told in [
        (tmp_path / "absent" / "y.npy", r"its directory must exist, .*absent does not; make it first"),
        (x / "y.npy", "its directory must exist"),
        (x, r"the output must be another file than .*x\.npy, which is read"),
        (tmp_path / "link.npy", "the output must be another file than"),
        (model / "model.safetensors", r"must be a \.npy as the input is"),
        (tmp_path / "folder.npy", "the output must be a regular file, this is a directory"),
        (tmp_path / "y.zarr", r"must be a \.npy as the input is"),
    ]:
        assert re.search(told, refused(capsys, model, x, output))
    os.link(model / "model.safetensors", tmp_path / "weights.npy")
    assert "must be another file than" in refused(capsys, model, x, tmp_path / "weights.npy")
    assert x.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "folder.npy",
        "link.npy",
        "model",
        "weights.npy",
        "x.npy",
    ]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device on this system")
def test_a_device_is_not_replaced(tmp_path, model, capsys):
    np.save(tmp_path / "x.npy", rows(40, 8))
    (tmp_path / "full.npy").symlink_to("/dev/full")
    told = refused(capsys, model, tmp_path / "x.npy", tmp_path / "full.npy")
    assert "the output must be a regular file, this is a device or a pipe" in told


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_directory_that_is_read_only(tmp_path, model, capsys):
    np.save(tmp_path / "x.npy", rows(40, 8))
    (tmp_path / "out").mkdir(mode=0o500)
    assert "its directory must be writable" in refused(capsys, model, tmp_path / "x.npy", tmp_path / "out" / "y.npy")


def test_a_layer_that_is_not_there(tmp_path, model, capsys):
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, rows(40, 8))
    none = "must mean one feed-forward network, and there is none"
    told = refused(capsys, model, x, y, "--layer", 7)
    assert re.search(rf"layer 7 {none}; .* 'encoder\.layer\.0' .*, 'encoder", told)
    assert f"name 'nobody' {none}" in refused(capsys, model, x, y, "--name", "nobody")
    assert f"layer 0 of stack 'vision' {none}" in refused(capsys, model, x, y, "--stack", "vision")
    assert "no such file or directory" in refused(capsys, tmp_path / "absent", x, y)
    assert run(capsys, model, x, y, "--name", "encoder.layer.1")[1]["layer"] == "encoder.layer.1"


def test_a_network_that_is_not_decided(tmp_path, model, capsys):
    """The file alone, without its config, doesn't say the activation; the argument does."""
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, rows(40, 8))
    assert "activation" in refused(capsys, model / "model.safetensors", x, y)
    assert run(capsys, model / "model.safetensors", x, y, "--activation", "gelu", "--layout", "out_in")[0] == 0
    assert_agrees(np.load(y), np.load(x), *expected(model, np.load(x)))


def test_what_is_advised_are_options(tmp_path, model, capsys):
    """A message of the library's names arguments of Python."""
    np.save(tmp_path / "x.npy", rows(4, 8))
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    told = refused(capsys, model / "model.safetensors", x, y)
    assert "pass --activation, such as --activation gelu, or give the directory" in told
    assert "pass --name, one of" in refused(capsys, model, x, y, "--layer", 7)
    assert "leave --gate out" in refused(capsys, model, x, y, "--gate", "first")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('pass activation="gelu" or activation="gelu_tanh"', "pass --activation gelu or --activation gelu_tanh"),
        ("layout='in_out' contradicts the shapes", "--layout in_out contradicts the shapes"),
        ("Pass activation=ClippedGate(...)", "In Python, pass activation=ClippedGate(...)"),
        ("pass activation=, such as ClippedGate(limit)", "in Python, pass activation=, such as ClippedGate(limit)"),
        ("activation must be one of elu, gelu", "--activation must be one of elu, gelu"),
        ("hidden_activation = silu, w.activation", "hidden_activation = silu, w.activation"),
    ],
)
def test_arguments_become_options(said, told):
    assert as_options(said) == told
