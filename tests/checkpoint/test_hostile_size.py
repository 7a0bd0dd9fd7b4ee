"""No file of 100 MB that is refused takes more than 10 seconds of the processor, or 600 MB of memory."""

import json
import struct
import subprocess
import sys

import pytest

from portable_ffn import checkpoint
from portable_ffn.checkpoint import CheckpointError
from portable_ffn.checkpoint._files.json import DEPTH, VALUES, parse_object

SIZE = 100_000_000 - 100
EMPTY = len(b"{}").to_bytes(8, "little") + b"{}"


def safetensors(header):
    """A file that is all header."""
    return {"model.safetensors": len(header).to_bytes(8, "little") + header}


def tensors():
    """As many tensors as a header may have, under long names; one byte belongs to none."""
    count = (VALUES - 10) // 11
    long = b"a" * (SIZE // count - 80)
    entries = (b'"%s%x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % (long, i) for i in range(count))
    files = safetensors(b"{" + b",".join(entries) + b"}")
    return {name: data + b"x" for name, data in files.items()}


def texts():
    """A vocabulary of as many texts as are passed over, and a header that breaks off after it."""
    count = 4_900_000
    pairs = struct.pack("<Q", 1) + b"a" + struct.pack("<IIQ", 9, 8, count) + bytes(8 * count)
    return {"model.gguf": b"GGUF" + struct.pack("<IQQ", 3, 7, 1) + pairs + b"xx"}


FILES = {
    "lists in a header": lambda: safetensors(b'{"a":[' + b"[]," * (SIZE // 3) + b"[]]}"),
    "lists in each other": lambda: safetensors(b'{"a":' + b"[" * SIZE),
    "a text outside ASCII": lambda: safetensors(b'{"a":"' + "\U0001f600".encode() * (SIZE // 4) + b'"}'),
    "a long text": lambda: safetensors(b'{"a":"' + b"x" * SIZE + b'"}'),
    "a long number": lambda: safetensors(b'{"a":0.' + b"9" * SIZE + b"}"),
    "many tensors": tensors,
    "lists in a config": lambda: {
        "model.safetensors": EMPTY,
        "config.json": b'{"a":[' + b"[]," * (SIZE // 3) + b"[]]}",
    },
    "many files": lambda: {
        "model.safetensors.index.json": b'{"weight_map":{' + b'"a":"a.safetensors",' * (SIZE // 20) + b'"b":"b"}}'
    },
    "many texts of GGUF": texts,
}
PROGRAM = """
import sys, time
from portable_ffn import checkpoint
start = time.process_time()
try:
    checkpoint.find(sys.argv[1])
except checkpoint.CheckpointError as error:
    assert str(error).isprintable() and len(str(error)) < 1500
else:
    raise SystemExit("accepted")
print(time.process_time() - start)
try:
    with open("/proc/self/status") as status:
        print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
except OSError:
    print(0)
"""


@pytest.mark.parametrize("case", FILES)
def test_a_refused_file_is_cheap(tmp_path, case):
    for name, data in FILES[case]().items():
        (tmp_path / name).write_bytes(data)
    path = tmp_path / "model.gguf" if (tmp_path / "model.gguf").exists() else tmp_path
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, path], capture_output=True, text=True, timeout=300, check=False
    )
    for file in tmp_path.iterdir():
        file.unlink()
    assert done.returncode == 0, done.stderr
    seconds, kilobytes = done.stdout.split()
    assert float(seconds) < 10
    assert int(kilobytes) < 600_000


def test_a_header_of_many_tensors_is_none_of_these(tmp_path):
    """A hundred thousand tensors in one file: more than the largest published model has in all of its files."""
    entries = {f"layers.{i}.w": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(100_000)}
    (tmp_path / "model.safetensors").write_bytes(safetensors(json.dumps(entries).encode())["model.safetensors"])
    assert checkpoint.find(tmp_path) == []


def test_depth_is_counted_as_it_is():
    deep = b'{"a":' * (DEPTH - 1) + b"[]" + b"}" * (DEPTH - 1)
    assert parse_object(deep, "it")
    with pytest.raises(CheckpointError, match="nested too deeply; 64 levels"):
        parse_object(b'{"a":' + deep + b"}", "it")


def test_experts_of_one_stack_are_counted(tmp_path):
    """A stack of no bytes may count any number of experts; each would be an entry."""
    shapes = {"gate_up_proj": [2**40, 0, 8], "down_proj": [2**40, 4, 0]}
    entries = {
        f"model.layers.0.mlp.experts.{name}": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}
        for name, shape in shapes.items()
    }
    (tmp_path / "model.safetensors").write_bytes(safetensors(json.dumps(entries).encode())["model.safetensors"])
    (tmp_path / "config.json").write_text('{"model_type": "gpt_oss", "hidden_act": "silu"}')
    (entry,) = checkpoint.find(tmp_path)
    assert "must stack 1 to 16384 experts" in str(entry.problem)
