"""One layer of a checkpoint of 64 GB is read alone: measured in a process of its own, on a sparse file."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

LAYERS, D_MODEL, D_FF = 520, 2048, 5440
LAYER_MIB = 3 * D_MODEL * D_FF * 4 / 2**20

PROBE = """
import json, sys, time
import numpy as np
from portable_ffn import checkpoint
from portable_ffn.checkpoint._tensors.store import open_store

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024

def measured(work):
    before, start = peak(), time.process_time()
    result = work()
    return result, time.process_time() - start, peak() - before

store, *opened = measured(lambda: open_store(sys.argv[1]))
entries, *found = measured(lambda: checkpoint.find(sys.argv[1]))
ffn, *loaded = measured(lambda: checkpoint.load(sys.argv[1], layer=31))
total, *read = measured(lambda: float(sum(np.sum(w) for w in (ffn.weights.W1, ffn.weights.V, ffn.weights.W2))))
print(json.dumps([len(store.tensors), len(entries), total, opened, found, loaded, read]))
"""


@pytest.fixture
def huge(tmp_path):
    """A sparse checkpoint of 64 GiB, of which only a few numbers of layer 31 are on the disk."""
    header, end, marked = {}, 0, []
    for layer in range(LAYERS):
        for name, shape in (("gate", (D_FF, D_MODEL)), ("up", (D_FF, D_MODEL)), ("down", (D_MODEL, D_FF))):
            nbytes = 4 * D_MODEL * D_FF
            entry = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + nbytes]}
            header[f"model.layers.{layer}.mlp.{name}_proj.weight"] = entry
            if layer == 31:
                marked.append(end)
            end += nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(path, 8 + len(text) + end)
    with path.open("r+b") as file:
        for number, place in enumerate(marked):
            file.seek(8 + len(text) + place)
            np.array([1.5, 10**number], np.float32).tofile(file)
    config = {"model_type": "llama", "hidden_act": "silu", "hidden_size": D_MODEL, "intermediate_size": D_FF}
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": LAYERS}))
    assert path.stat().st_size > 64 * 2**30
    assert path.stat().st_blocks * 512 < 2**24, "the file system has no sparse files"
    yield tmp_path
    path.unlink()


@pytest.mark.skipif(sys.platform != "linux", reason="measures memory by /proc")
def test_one_layer_of_64_gigabytes_is_read_alone(huge):
    done = subprocess.run([sys.executable, "-c", PROBE, huge], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    tensors, entries, total, opened, found, loaded, read = json.loads(done.stdout)
    assert (tensors, entries, total) == (3 * LAYERS, LAYERS, 3 * 1.5 + 111)
    for seconds, grown in (opened, found):
        assert seconds < 1
        assert grown < 50  # MiB
    assert loaded[1] + read[1] < LAYER_MIB * 1.5
    assert read[1] > LAYER_MIB / 2  # or the measurement would show nothing
