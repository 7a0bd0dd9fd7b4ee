"""A layer applied to a file of any size: every shape, order and dtype, in blocks."""

import re

import numpy as np
import pytest

import portable_ffn as pf
from portable_ffn import oracle
from portable_ffn.__main__ import main
from portable_ffn.checkpoint import load
from portable_ffn.testing import assert_agrees
from tests.command.applied import command, expected, left, refused, rows, run, write_model

safetensors = pytest.importorskip("safetensors.numpy", reason="writing checkpoints needs safetensors")


@pytest.mark.parametrize("shape", [(50, 8), (3, 5, 8), (2, 3, 4, 8), (8,), (0, 8), (2, 0, 8), (1, 8)], ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_shape_in_both_orders(tmp_path, model, capsys, small_blocks, shape, order):
    x = np.asarray(rows(*shape), order=order)
    np.save(tmp_path / "x.npy", x)
    status, document, _ = run(capsys, model, tmp_path / "x.npy", tmp_path / "y.npy", "--layer", 1)
    y = np.load(tmp_path / "y.npy")
    assert status == 0
    assert document["shape"] == list(shape)
    assert y.flags.f_contiguous == x.flags.f_contiguous
    assert_agrees(y, x, *expected(model, x, layer=1))
    assert left(tmp_path) == ["y.npy"]


@pytest.mark.parametrize(
    ("stored", "asked", "result"),
    [
        ("float32", None, "float32"),
        ("float64", None, "float64"),
        ("float16", None, "float32"),
        (">f4", None, "float32"),
        ("<i4", None, "float32"),
        ("bool", None, "float32"),
        ("float32", "float64", "float64"),
        ("float64", "float32", "float32"),
        ("float32", "float16", "float16"),
    ],
)
def test_every_dtype(tmp_path, model, capsys, stored, asked, result):
    x = rows(40, 8).astype(stored)
    np.save(tmp_path / "x.npy", x)
    more = [] if asked is None else ["--dtype", asked]
    assert run(capsys, model, tmp_path / "x.npy", tmp_path / "y.npy", *more)[0] == 0
    y = np.load(tmp_path / "y.npy")
    network = load(model)
    wanted = oracle.feed_forward(x.astype(result), *network.weights.to(dtype=result), activation="gelu", dtype=result)
    assert_agrees(y, x, *wanted, dtype=result)


def test_weights_of_half_precision_are_widened_once(tmp_path, capsys):
    model = write_model(tmp_path / "model", dtype="float16")
    x = rows(40, 8)
    np.save(tmp_path / "x.npy", x)
    assert run(capsys, model, tmp_path / "x.npy", tmp_path / "y.npy")[0] == 0
    assert_agrees(np.load(tmp_path / "y.npy"), x, *expected(model, x))


def test_a_layer_with_more_than_a_network(tmp_path, cases, capsys):
    """Whatever the model's own module does beside the two products is done here as well."""
    for family in ("llama", "gemma3n", "esm"):
        if not (cases / "golden" / family).is_dir():
            continue
        network = load(cases / "golden" / family, 0)
        x = rows(30, network.weights.d_model)
        np.save(tmp_path / "x.npy", x)
        assert run(capsys, cases / "golden" / family, tmp_path / "x.npy", tmp_path / "y.npy")[0] == 0
        assert np.array_equal(np.load(tmp_path / "y.npy"), network(x))


def test_a_mapped_file_is_an_array_like_any_other(tmp_path, model):
    x = rows(40, 8)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    y = pf.feed_forward(mapped, *load(model).weights, activation="gelu")
    assert type(y) is np.ndarray
    assert_agrees(y, x, *expected(model, x))


def test_stdout_is_for_the_document_and_stderr_for_progress(tmp_path, model, capsys):
    np.save(tmp_path / "x.npy", rows(40, 8))
    _, document, told = run(capsys, model, tmp_path / "x.npy", tmp_path / "y.npy")
    assert told == "y.npy: 40 of 40 rows (100%)\n"
    assert document["rows"] == 40
    assert document["rows_resumed"] == 0
    assert main(command(model, tmp_path / "x.npy", tmp_path / "y.npy")) == 0
    assert re.search(r"40 rows through encoder\.layer\.0, shape \(40, 8\), float32", capsys.readouterr().out)


def test_bfloat16_has_no_name_in_the_format(tmp_path, capsys):
    pytest.importorskip("ml_dtypes", reason="NumPy's bfloat16 is of ml_dtypes")
    model = write_model(tmp_path / "model", dtype="bfloat16")
    np.save(tmp_path / "x.npy", rows(5, 8).astype("int8"))
    told = refused(capsys, model, tmp_path / "x.npy", tmp_path / "y.npy")
    assert re.search(r"can't hold bfloat16.*pass --dtype float32", told)
    assert run(capsys, model, tmp_path / "x.npy", tmp_path / "y.npy", "--dtype", "float32")[0] == 0


def test_no_rows_are_all_of_them(tmp_path, model, capsys):
    np.save(tmp_path / "x.npy", rows(0, 8))
    _, document, told = run(capsys, model, tmp_path / "x.npy", tmp_path / "y.npy")
    assert told == "y.npy: 0 of 0 rows (100%)\n"
    assert document["rows"] == 0
    assert np.load(tmp_path / "y.npy").shape == (0, 8)
