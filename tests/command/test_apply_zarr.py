"""Zarr in, Zarr out."""

import pytest

from portable_ffn.__main__ import main
from portable_ffn.command._apply import memory as _memory
from portable_ffn.testing import assert_agrees
from tests.command.applied import command, expected, left, refused, rows, run

safetensors = pytest.importorskip("safetensors.numpy", reason="writing checkpoints needs safetensors")


@pytest.fixture
def zarr(require):
    require("dask")
    return pytest.importorskip("zarr", reason="zarr is not installed")


def save_zarr(zarr, path, x, chunks):
    zarr.create_array(path, shape=x.shape, chunks=chunks, dtype=x.dtype)[...] = x


@pytest.mark.parametrize(("chunks", "block"), [((16, 3, 8), 16), ((10, 2, 5), 10), ((90, 3, 8), 64)])
def test_zarr_in_zarr_out(tmp_path, model, capsys, zarr, monkeypatch, chunks, block):
    monkeypatch.setattr(_memory, "MOST_ROWS", 16)
    x = rows(90, 3, 8)
    save_zarr(zarr, tmp_path / "x.zarr", x, chunks)
    status, document, _ = run(capsys, model, tmp_path / "x.zarr", tmp_path / "y.zarr")
    assert status == 0
    written = zarr.open_array(tmp_path / "y.zarr", mode="r")
    assert written.chunks[-1] == 8
    assert document["rows_per_block"] % written.chunks[0] == 0
    assert_agrees(written[:], x, *expected(model, x))
    assert left(tmp_path) == ["y.zarr"]
    assert "is there already" in refused(capsys, model, tmp_path / "x.zarr", tmp_path / "y.zarr")


def test_zarr_goes_on(tmp_path, model, capsys, zarr, small_blocks, monkeypatch):
    from portable_ffn.command._apply.zarr_target import ZarrTarget

    x = rows(90, 8)
    save_zarr(zarr, tmp_path / "x.zarr", x, (16, 8))
    write = ZarrTarget.write

    def failing(self, start, block):
        if start >= 48:
            raise KeyboardInterrupt
        write(self, start, block)

    with monkeypatch.context() as patched:
        patched.setattr(ZarrTarget, "write", failing)
        assert main(command(model, tmp_path / "x.zarr", tmp_path / "y.zarr")) == 130
    capsys.readouterr()
    assert left(tmp_path) == ["y.zarr.journal", "y.zarr.partial"]
    assert run(capsys, model, tmp_path / "x.zarr", tmp_path / "y.zarr")[1]["rows_resumed"] == 48
    assert_agrees(zarr.open_array(tmp_path / "y.zarr", mode="r")[:], x, *expected(model, x))


@pytest.mark.parametrize("content", [None, b"", b"torn"])
def test_zarr_whose_chunk_is_torn(tmp_path, model, capsys, zarr, small_blocks, monkeypatch, content):
    from portable_ffn.command._apply.zarr_target import ZarrTarget

    x = rows(90, 8)
    save_zarr(zarr, tmp_path / "x.zarr", x, (16, 8))
    with monkeypatch.context() as patched:
        patched.setattr(ZarrTarget, "publish", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        assert main(command(model, tmp_path / "x.zarr", tmp_path / "y.zarr")) == 130
    capsys.readouterr()
    chunk = tmp_path / "y.zarr.partial" / "c" / "2" / "0"
    chunk.unlink() if content is None else chunk.write_bytes(content)
    assert run(capsys, model, tmp_path / "x.zarr", tmp_path / "y.zarr")[1]["rows_resumed"] == 32
    assert_agrees(zarr.open_array(tmp_path / "y.zarr", mode="r")[:], x, *expected(model, x))


def test_zarr_that_does_not_fit(tmp_path, model, capsys, zarr):
    assert "must be a directory that holds one Zarr array" in refused(
        capsys, model, tmp_path / "x.zarr", tmp_path / "y.zarr"
    )
    save_zarr(zarr, tmp_path / "x.zarr", rows(8), (8,))
    assert "two axes at least" in refused(capsys, model, tmp_path / "x.zarr", tmp_path / "y.zarr")
    save_zarr(zarr, tmp_path / "z.zarr", rows(5, 8).astype(complex), (5, 8))
    assert "got complex128" in refused(capsys, model, tmp_path / "z.zarr", tmp_path / "y.zarr")
