"""`portable-ffn apply`: the right rows, in bounded memory, whatever stops it."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import portable_ffn as pf
from portable_ffn import oracle
from portable_ffn.__main__ import main
from portable_ffn.checkpoint import load
from portable_ffn.command._apply import memory as _memory
from portable_ffn.command._apply import stream as _stream
from portable_ffn.command._apply.npy import NpyTarget
from portable_ffn.command._words import as_options
from portable_ffn.testing import assert_agrees

safetensors = pytest.importorskip("safetensors.numpy", reason="writing checkpoints needs safetensors")


def write_model(folder, d_model=8, d_ff=32, layers=2, dtype="float32"):
    """A checkpoint in BERT's layout."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for i in range(layers):
        w = pf.init_weights(d_model, d_ff, seed=i).to(dtype=dtype)
        layer = f"encoder.layer.{i}."
        tensors[layer + "intermediate.dense.weight"] = np.ascontiguousarray(w.W1.T)
        tensors[layer + "intermediate.dense.bias"] = w.b1
        tensors[layer + "output.dense.weight"] = np.ascontiguousarray(w.W2.T)
        tensors[layer + "output.dense.bias"] = w.b2
    safetensors.save_file(tensors, folder / "model.safetensors")
    config = {"model_type": "bert", "hidden_size": d_model, "intermediate_size": d_ff, "hidden_act": "gelu"}
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": layers}))
    return folder


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path / "model")


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 16 rows, each made safe by itself."""
    monkeypatch.setattr(_memory, "MOST_ROWS", 16)
    monkeypatch.setattr(_stream, "SAFE_EVERY", 0.0)
    monkeypatch.setattr(_stream, "SAFE_SHARE", 0)


def rows(*shape, dtype="float32", seed=0):
    return (3 * np.random.default_rng(seed).normal(size=shape)).astype(dtype)


def command(model, x, y, *more):
    return ["apply", str(model), "--input", str(x), "--output", str(y), *map(str, more)]


def run(capsys, *arguments):
    """The exit status, the JSON document, and what stderr got."""
    status = main([*command(*arguments), "--json"])
    told = capsys.readouterr()
    return status, json.loads(told.out) if told.out else None, told.err


def refused(capsys, *arguments):
    """The one line that says why not."""
    status, document, told = run(capsys, *arguments)
    assert (status, document) == (2, None)
    assert told.startswith("portable-ffn apply: ")
    assert told.count("\n") == 1
    return told


def left(folder, name="y"):
    """What stands in the folder of the output, by that name."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(f"{name}."))


def expected(model, x, layer=0, dtype=None):
    network = load(model, layer)
    return oracle.feed_forward(x, *network.weights, activation="gelu", dtype=dtype)


# Values, whatever the file looks like


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


# Refused with one line, before anything is written


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


def test_bfloat16_has_no_name_in_the_format(tmp_path, capsys):
    pytest.importorskip("ml_dtypes", reason="NumPy's bfloat16 is of ml_dtypes")
    model = write_model(tmp_path / "model", dtype="bfloat16")
    np.save(tmp_path / "x.npy", rows(5, 8).astype("int8"))
    told = refused(capsys, model, tmp_path / "x.npy", tmp_path / "y.npy")
    assert re.search(r"can't hold bfloat16.*pass --dtype float32", told)
    assert run(capsys, model, tmp_path / "x.npy", tmp_path / "y.npy", "--dtype", "float32")[0] == 0


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
    told = refused(capsys, model, x, y, "--layer", 7)
    assert re.search(r"one layer must be meant, and layer 7 means 0 of them; .* 'encoder\.layer\.0' .*, 'encoder", told)
    assert "name 'nobody' means 0 of them" in refused(capsys, model, x, y, "--name", "nobody")
    assert "layer 0 of stack 'vision' means 0" in refused(capsys, model, x, y, "--stack", "vision")
    assert "no such file or directory" in refused(capsys, tmp_path / "absent", x, y)
    assert run(capsys, model, x, y, "--name", "encoder.layer.1")[1]["layer"] == "encoder.layer.1"


def test_a_network_that_is_not_decided(tmp_path, model, capsys):
    """The file alone, without its config, doesn't say the activation; the argument does."""
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, rows(40, 8))
    assert "activation" in refused(capsys, model / "model.safetensors", x, y)
    assert run(capsys, model / "model.safetensors", x, y, "--activation", "gelu", "--layout", "out_in")[0] == 0
    assert_agrees(np.load(y), np.load(x), *expected(model, np.load(x)))


@pytest.mark.parametrize("size", ["much", "-5MiB", "0", "nan", "5 parsecs", ""])
def test_a_size_that_is_none(tmp_path, model, capsys, size):
    with pytest.raises(SystemExit) as stopped:
        main(command(model, tmp_path / "x.npy", tmp_path / "y.npy", f"--memory={size}"))
    assert stopped.value.code == 2
    assert "a size must be a number above zero" in capsys.readouterr().err


def test_sizes():
    assert [_memory.parse_size(text) for text in ("256MiB", "1.5 GB", "7", "1kb", "2GiB")] == [
        2**28,
        1_500_000_000,
        7,
        1000,
        2**31,
    ]
    assert _memory.in_words(5) == "5 B"
    assert _memory.in_words(1.01 * 2**20) == "1.1 MiB"


# A full disk


LIMITED = """
import resource, sys
from portable_ffn.__main__ import main
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(os.name != "posix", reason="a limit on the size of files is POSIX's")
def test_no_room_for_the_output(tmp_path, model):
    np.save(tmp_path / "x.npy", rows(4000, 8))
    (tmp_path / "y.npy").write_bytes(b"what was there before")
    arguments = command(model, tmp_path / "x.npy", tmp_path / "y.npy")
    done = subprocess.run([sys.executable, "-c", LIMITED, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert re.fullmatch(r"portable-ffn apply: .*y\.npy: can't be written: File too large\n", done.stderr)
    assert (tmp_path / "y.npy").read_bytes() == b"what was there before"
    assert left(tmp_path) == ["y.npy"]


def test_a_disk_that_fills_up_on_the_way(tmp_path, model, capsys, small_blocks, monkeypatch):
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, rows(200, 8))
    with monkeypatch.context() as patched:
        stop_at(patched, 96, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        assert "y.npy: can't be written: No space left on device" in refused(capsys, model, x, y)
    assert left(tmp_path) == ["y.npy.journal", "y.npy.partial"]
    assert run(capsys, model, x, y)[1]["rows_resumed"] == 96
    assert_agrees(np.load(y), np.load(x), *expected(model, np.load(x)))


# Stopped and started again


def stop_at(patched, row, error):
    """Have the writing of that row's block fail."""
    write = NpyTarget.write

    def failing(self, start, block):
        if start >= row:
            raise error
        write(self, start, block)

    patched.setattr(NpyTarget, "write", failing)


@pytest.fixture
def interrupted(tmp_path, model, capsys, small_blocks, monkeypatch):
    """A run that was interrupted after 96 of 200 rows, and the bytes that a whole run makes."""
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, rows(200, 8))
    assert main(command(model, x, tmp_path / "whole.npy")) == 0
    y.write_bytes(b"what was there before")
    with monkeypatch.context() as patched:
        stop_at(patched, 96, KeyboardInterrupt())
        assert main(command(model, x, y)) == 130
    assert "interrupted; the same command goes on where this stood" in capsys.readouterr().err
    assert y.read_bytes() == b"what was there before"
    assert left(tmp_path) == ["y.npy", "y.npy.journal", "y.npy.partial"]
    return x, y, (tmp_path / "whole.npy").read_bytes()


def test_an_interrupted_run_goes_on(interrupted, tmp_path, model, capsys):
    x, y, whole = interrupted
    assert run(capsys, model, x, y)[1]["rows_resumed"] == 96
    assert y.read_bytes() == whole
    assert left(tmp_path) == ["y.npy"]


def test_a_torn_line_of_the_journal_counts_for_nothing(interrupted, model, capsys):
    x, y, whole = interrupted
    journal = y.with_name("y.npy.journal")
    journal.write_bytes(journal.read_bytes()[:-4])
    assert run(capsys, model, x, y)[1]["rows_resumed"] == 80
    assert y.read_bytes() == whole


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]\n", b"\xff\n", b'{"key": 1, "block": 16}\n[16, 1]\n'])
def test_a_journal_of_nonsense(interrupted, model, capsys, content):
    x, y, whole = interrupted
    y.with_name("y.npy.journal").write_bytes(content)
    assert run(capsys, model, x, y)[1]["rows_resumed"] == 0
    assert y.read_bytes() == whole


def test_rows_that_were_changed_are_made_again(interrupted, model, capsys):
    x, y, whole = interrupted
    partial = y.with_name("y.npy.partial")
    content = bytearray(partial.read_bytes())
    content[128 + 50 * 8 * 4] ^= 1
    partial.write_bytes(content)
    assert run(capsys, model, x, y)[1]["rows_resumed"] == 48
    assert y.read_bytes() == whole


def test_a_partial_file_that_is_gone(interrupted, model, capsys):
    x, y, whole = interrupted
    y.with_name("y.npy.partial").unlink()
    assert run(capsys, model, x, y)[1]["rows_resumed"] == 0
    assert y.read_bytes() == whole


@pytest.mark.parametrize("changed", ["input", "weights", "dtype", "memory"])
def test_another_run_is_not_gone_on_with(interrupted, tmp_path, model, capsys, changed):
    x, y, _ = interrupted
    more = {"dtype": ["--dtype", "float64"], "memory": ["--memory", "200MiB"]}.get(changed, [])
    if changed == "input":
        np.save(x, rows(200, 8, seed=1))
    if changed == "weights":
        write_model(model, layers=3)
    _, document, told = run(capsys, model, x, y, *more)
    assert document["rows_resumed"] == 0
    assert re.match(rf"y\.npy: an earlier run was not finished; begun anew, since this has changed: {changed}\n", told)
    dtype = "float64" if changed == "dtype" else "float32"
    wanted = expected(model, np.load(x).astype(dtype), dtype=dtype)
    assert_agrees(np.load(y), np.load(x), *wanted, dtype=dtype)


def test_another_layer_is_not_gone_on_with(interrupted, model, capsys):
    x, y, _ = interrupted
    assert run(capsys, model, x, y, "--layer", 1)[1]["rows_resumed"] == 0
    assert_agrees(np.load(y), np.load(x), *expected(model, np.load(x), layer=1))


def test_a_refused_run_leaves_the_unfinished_one(interrupted, model, capsys):
    x, y, whole = interrupted
    assert "--memory must be" in refused(capsys, model, x, y, "--memory", "1MiB")
    assert run(capsys, model, x, y)[1]["rows_resumed"] == 96
    assert y.read_bytes() == whole


def test_two_runs_at_once(interrupted, model, capsys):
    fcntl = pytest.importorskip("fcntl", reason="locks of files are POSIX's")
    x, y, whole = interrupted
    with y.with_name("y.npy.journal").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert re.search(r"y\.npy: another run is writing it; wait for that one", refused(capsys, model, x, y))
    assert run(capsys, model, x, y)[0] == 0
    assert y.read_bytes() == whole


@pytest.mark.slow
def test_a_killed_run_goes_on(tmp_path):
    """Kill -9 in the middle: nothing looks finished, and the next run ends with the bytes of a whole one."""
    model = write_model(tmp_path / "model", 64, 256, layers=1)
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, rows(120_000, 64))
    start = [sys.executable, "-m", "portable_ffn", *command(model, x, y), "--json"]
    killed = subprocess.Popen(start, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        journal = tmp_path / "y.npy.journal"
        while not (journal.exists() and journal.read_bytes().count(b"\n") >= 2):
            assert killed.poll() is None, "the run ended before it could be killed; give it more rows"
            assert time.monotonic() < deadline
            time.sleep(0.005)
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait(10)
    assert killed.returncode == -signal.SIGKILL
    assert left(tmp_path) == ["y.npy.journal", "y.npy.partial"]
    document = json.loads(subprocess.run(start, capture_output=True, check=True, timeout=120).stdout)
    assert 0 < document["rows_resumed"] < 120_000
    whole = tmp_path / "whole.npy"
    start[start.index(str(y))] = str(whole)
    subprocess.run(start, capture_output=True, check=True, timeout=120)
    assert y.read_bytes() == whole.read_bytes()
    part = np.load(y, mmap_mode="r")[::997]
    assert_agrees(np.array(part), part, *expected(model, np.load(x, mmap_mode="r")[::997]))


# Memory


GROWTH = """
import sys
from portable_ffn.__main__ import main

def memory(kind):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(kind + ":")) * 1024

warm, big, limit = sys.argv[1].split("|"), sys.argv[2].split("|"), sys.argv[3]
assert main(warm) == 0
before = memory("VmRSS")
assert main([*big, "--memory", limit]) == 0
print("\\ngrown", memory("VmHWM") - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the peak is read from Linux's /proc")
def test_no_more_memory_than_it_says(tmp_path):
    """On an input several times the limit; what Python and its libraries take was taken by a run before."""
    model, limit = write_model(tmp_path / "model", 128, 1024, layers=1), "36MiB"
    np.save(tmp_path / "few.npy", rows(3, 128))
    mapped = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float64, shape=(100_000, 128))
    mapped[::1000] = rows(100, 128)
    del mapped
    warm = "|".join(command(model, tmp_path / "few.npy", tmp_path / "few_y.npy"))
    big = "|".join(command(model, tmp_path / "x.npy", tmp_path / "y.npy"))
    program = [sys.executable, "-c", GROWTH, warm, big, limit]
    done = subprocess.run(program, capture_output=True, text=True, timeout=200, check=True)
    grown = int(done.stdout.split()[-1])
    assert (tmp_path / "y.npy").stat().st_size > 2 * _memory.parse_size(limit)
    assert grown <= _memory.parse_size(limit)


def test_too_little_memory_says_how_much(tmp_path, capsys):
    model = write_model(tmp_path / "model", 256, 4096, layers=1)
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, rows(40, 256))
    told = refused(capsys, model, x, y, "--memory", "30MiB")
    assert re.search(r"--memory must be more than 32\.\d MiB for the weights of encoder\.layer\.0", told)
    told = refused(capsys, model, x, y, "--memory", "32.05MiB")
    enough = re.search(r"--memory must be (32\.\d MiB) at least for these weights and one row, got 32\.1 MiB", told)
    assert left(tmp_path) == []
    assert run(capsys, model, x, y, "--memory", enough[1])[1]["rows_per_block"] < 64
    assert_agrees(np.load(y), np.load(x), *expected(model, np.load(x)))


# Zarr


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
    from portable_ffn.command._apply.zarr import ZarrTarget

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
    from portable_ffn.command._apply.zarr import ZarrTarget

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


def test_no_rows_are_all_of_them(tmp_path, model, capsys):
    np.save(tmp_path / "x.npy", rows(0, 8))
    _, document, told = run(capsys, model, tmp_path / "x.npy", tmp_path / "y.npy")
    assert told == "y.npy: 0 of 0 rows (100%)\n"
    assert document["rows"] == 0
    assert np.load(tmp_path / "y.npy").shape == (0, 8)


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
