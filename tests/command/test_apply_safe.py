"""`apply` never mixes rows of two inputs or two networks, and harms nothing that is not its own."""

import json
import os
import shutil
import threading

import numpy as np
import pytest

from portable_ffn.__main__ import main
from portable_ffn.checkpoint import load
from portable_ffn.command._apply.journal import Journal
from portable_ffn.command._apply.npy_target import MARK, NpyTarget
from portable_ffn.command._apply.own_files import open_locked
from tests.command.applied import command, left, refused, rows, run, safetensors

pytestmark = pytest.mark.usefixtures("small_blocks")


@pytest.fixture
def x(tmp_path):
    np.save(tmp_path / "x.npy", rows(200, 8))
    return tmp_path / "x.npy"


@pytest.fixture
def y(tmp_path):
    return tmp_path / "y.npy"


def at_row(monkeypatch, row, act):
    """Do something once, before the block of that row is written."""
    write = NpyTarget.write
    done = []

    def acting(self, start, block):
        if start >= row and not done:
            done.append(start)
            act()
        write(self, start, block)

    monkeypatch.setattr(NpyTarget, "write", acting)


def stop():
    raise KeyboardInterrupt


# The key


def fused(folder, **config):
    """A gated layer whose halves nobody knows, with a norm in front as ESM C has it."""
    rng = np.random.default_rng(0)
    shapes = {"mlp.gate_up_proj.weight": (16, 8), "mlp.down_proj.weight": (8, 8)}
    folder.mkdir(exist_ok=True)
    tensors = {f"model.layers.0.{name}": rng.normal(size=shape).astype("float32") for name, shape in shapes.items()}
    safetensors.save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "not_known", "hidden_act": "silu", **config}))
    return folder


def square(folder):
    """A layer whose matrices may lie either way."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    tensors = {f"layers.0.mlp.fc{i}.weight": rng.normal(size=(8, 8)).astype("float32") for i in (1, 2)}
    safetensors.save_file(tensors, folder / "model.safetensors")
    return folder / "model.safetensors"


@pytest.mark.parametrize(
    ("make", "before", "after"),
    [
        (fused, ["--gate", "first"], ["--gate", "second"]),
        (fused, ["--gate", "first", "--activation", "silu"], ["--gate", "first", "--activation", "gelu"]),
        (square, ["--activation", "relu", "--layout", "in_out"], ["--activation", "relu", "--layout", "out_in"]),
    ],
    ids=["gate", "activation", "layout"],
)
def test_another_fact_is_another_network(tmp_path, x, y, capsys, monkeypatch, make, before, after):
    model = make(tmp_path / "m")
    with monkeypatch.context() as patched:
        at_row(patched, 96, stop)
        assert main(command(model, x, y, *before)) == 130
    _, document, told = run(capsys, model, x, y, *after)
    assert document["rows_resumed"] == 0
    assert "begun anew, since this has changed" in told
    assert main(command(model, x, tmp_path / "whole.npy", *after)) == 0
    assert y.read_bytes() == (tmp_path / "whole.npy").read_bytes()


def test_another_number_in_the_config_is_another_network(tmp_path, cases, x, y, capsys, monkeypatch):
    """The eps of a norm inside the network, of a family that has one."""
    model = tmp_path / "reformer"
    shutil.copytree(cases / "golden" / "reformer", model)
    config = json.loads((model / "config.json").read_text())
    network = load(model, 0)
    assert network.before or network.after or network.middle, "this family has a norm inside"
    np.save(x, rows(200, network.weights.d_model))
    with monkeypatch.context() as patched:
        at_row(patched, 96, stop)
        assert main(command(model, x, y)) == 130
    (model / "config.json").write_text(json.dumps({**config, "layer_norm_eps": 0.25}))
    assert run(capsys, model, x, y)[1]["rows_resumed"] == 0
    assert main(command(model, x, tmp_path / "whole.npy")) == 0
    assert y.read_bytes() == (tmp_path / "whole.npy").read_bytes()


# Changed on the way


@pytest.mark.parametrize("restore", [False, True], ids=["plainly", "with its old time"])
def test_an_input_that_is_changed_in_place(tmp_path, model, x, y, capsys, monkeypatch, restore):
    status = x.stat()

    def change():
        mapped = np.load(x, mmap_mode="r+")
        mapped[3] += 1
        mapped[150] += 1
        mapped.flush()
        if restore:
            os.utime(x, ns=(status.st_atime_ns, status.st_mtime_ns))

    y.write_bytes(b"what was there before")
    with monkeypatch.context() as patched:
        at_row(patched, 96, change)
        assert "x.npy: has changed while it was read" in refused_at_the_end(capsys, model, x, y)
    assert y.read_bytes() == b"what was there before"
    assert run(capsys, model, x, y)[0] == 0
    assert main(command(model, x, tmp_path / "whole.npy")) == 0
    assert y.read_bytes() == (tmp_path / "whole.npy").read_bytes()


def refused_at_the_end(capsys, *arguments):
    """What is said after the progress."""
    status, document, told = run(capsys, *arguments)
    assert (status, document) == (2, None)
    return told


def test_an_input_that_is_replaced(model, x, y, capsys, monkeypatch, tmp_path):
    np.save(tmp_path / "new.npy", rows(200, 8, seed=1))
    at_row(monkeypatch, 96, lambda: os.replace(tmp_path / "new.npy", x))
    assert "x.npy: has changed while it was read" in refused_at_the_end(capsys, model, x, y)


def test_an_input_that_is_only_touched(model, x, y, capsys, monkeypatch):
    at_row(monkeypatch, 96, lambda: os.utime(x))
    assert run(capsys, model, x, y)[0] == 0


def test_a_stopped_run_whose_input_has_other_numbers_and_the_old_time(model, x, y, capsys, monkeypatch):
    """What the clock doesn't show, the CRC of the rows does: the first stretch is made again."""
    status = x.stat()
    with monkeypatch.context() as patched:
        at_row(patched, 96, stop)
        assert main(command(model, x, y)) == 130
    mapped = np.load(x, mmap_mode="r+")
    mapped[40] += 1
    mapped.flush()
    os.utime(x, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert run(capsys, model, x, y)[1]["rows_resumed"] == 32


def test_weights_that_are_changed_in_place(model, x, y, capsys, monkeypatch):
    def change():
        file = model / "model.safetensors"
        with file.open("r+b") as opened:
            opened.seek(-64, os.SEEK_END)
            opened.write(b"\x01" * 64)

    at_row(monkeypatch, 96, change)
    assert "the weights of encoder.layer.1 have changed" in refused_at_the_end(capsys, model, x, y, "--layer", 1)


# Side files


@pytest.mark.parametrize("name", ["y.npy.partial", "y.npy.journal"])
@pytest.mark.parametrize("content", [b"somebody's notes\n", b"[1, 2]\n", b"\xff", b'{"a": 1}\n', "npy"])
def test_somebodys_file_is_not_written_to(tmp_path, model, x, y, capsys, name, content):
    if content == "npy":
        np.save(tmp_path / "other.npy", rows(3, 8))
        content = (tmp_path / "other.npy").read_bytes()
    (tmp_path / name).write_bytes(content)
    assert f"{name}: a file of this command's own stands here" in refused(capsys, model, x, y)
    assert (tmp_path / name).read_bytes() == content
    assert left(tmp_path) == [name]


@pytest.mark.parametrize("name", ["y.npy.partial", "y.npy.journal"])
@pytest.mark.parametrize("kind", ["link", "broken link", "directory", "pipe"])
def test_what_is_no_file_is_not_followed(tmp_path, model, x, y, capsys, name, kind):
    target = tmp_path / "precious"
    if kind == "link":
        target.write_bytes(MARK)
    if "link" in kind:
        (tmp_path / name).symlink_to(target)
    elif kind == "directory":
        (tmp_path / name).mkdir()
    else:
        os.mkfifo(tmp_path / name)
    told = refused(capsys, model, x, y)
    assert f"{name}: a file of this command's own stands here while it works, and this is a " in told
    assert target.exists() == (kind == "link")
    assert not target.exists() or target.read_bytes() == MARK


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_an_output_keeps_its_mode(model, x, y, capsys, mode):
    y.write_bytes(b"")
    y.chmod(mode)
    assert run(capsys, model, x, y)[0] == 0
    assert y.stat().st_mode & 0o777 == mode


def test_a_read_only_output_is_refused(model, x, y, capsys):
    y.write_bytes(b"precious")
    y.chmod(0o444)
    assert "y.npy: is there and read-only" in refused(capsys, model, x, y)
    assert y.read_bytes() == b"precious"


def test_names_that_are_too_long(tmp_path, model, x, capsys):
    for length in (252, 300):
        assert "File name too long" in refused(capsys, model, x, tmp_path / f"{'y' * (length - 4)}.npy")
    assert "File name too long" in refused(capsys, model, tmp_path / f"{'x' * 300}.npy", tmp_path / "y.npy")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are POSIX's")
def test_a_pipe_as_input(tmp_path, model, y, capsys):
    os.mkfifo(tmp_path / "pipe.npy")
    assert "must be a regular file" in refused(capsys, model, tmp_path / "pipe.npy", y)


@pytest.mark.parametrize("block", [None, 0, -1, "a", 1.5, True, 10**9, 10**400])
def test_a_journal_with_a_damaged_block(model, x, y, capsys, monkeypatch, block):
    with monkeypatch.context() as patched:
        at_row(patched, 96, stop)
        assert main(command(model, x, y)) == 130
    journal = y.with_name("y.npy.journal")
    first, *others = journal.read_bytes().splitlines(keepends=True)
    head = json.loads(first)
    del head["block"]
    text = json.dumps(head if block is None else head | {"block": 0})
    text = text.replace('"block": 0', f'"block": {"1" + "0" * 400 if block == 10**400 else json.dumps(block)}')
    journal.write_bytes(text.encode() + b"\n" + b"".join(others))
    status, document, told = run(capsys, model, x, y)
    assert (status, document["rows_resumed"]) == (0, 0)
    assert "begun anew, since this has changed: the journal, which is damaged" in told
    assert np.load(y).any()


def test_a_journal_of_deep_json(model, x, y, capsys):
    deep = b"[" * 100_000
    y.with_name("y.npy.journal").write_bytes(b'{"portable_ffn": "apply", "key": ' + deep + b"\n")
    assert run(capsys, model, x, y)[1]["rows_resumed"] == 0
    y.with_name("y.npy.journal").write_bytes(deep + b"\n")
    assert "a file of this command's own" in refused(capsys, model, x, y)


# Several at once


def test_a_lock_on_an_unlinked_file_is_noticed(tmp_path, monkeypatch):
    """Between the opening and the locking another run ends, and a third one begins."""
    from portable_ffn.command._apply import own_files

    path = tmp_path / "y.npy.journal"
    lock, calls = own_files._lock, []

    def late(descriptor):
        if not calls:
            path.unlink()
            path.write_bytes(b"")
        calls.append(descriptor)
        return lock(descriptor)

    monkeypatch.setattr(own_files, "_lock", late)
    descriptor = open_locked(path)
    assert len(calls) == 2
    assert own_files.identity(os.fstat(descriptor)) == own_files.identity(os.stat(path))
    os.close(descriptor)


def test_one_of_many_works_and_the_others_say_so(tmp_path, model, x, y):
    """Runs at once in threads, which locks of the kind that is used hold apart as processes."""
    from portable_ffn.command import CannotRun

    told, start = [], threading.Barrier(4)

    def begin():
        start.wait()
        try:
            journal = Journal(tmp_path / "y.npy.journal")
        except CannotRun as error:
            told.append(str(error))
        else:
            told.append(journal)

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held = [one for one in told if isinstance(one, Journal)]
    assert len(held) == 1
    assert all("another run is writing it; wait for that one" in one for one in told if one not in held)
    held[0].close()
