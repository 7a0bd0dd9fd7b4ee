"""Files mutated at random: the right bytes or an error, nothing else."""

import json
import random
import re

import numpy as np
import pytest

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.save import save_tensors
from portable_ffn.checkpoint._tensors.store import open_store
from tests.checkpoint.hostile import INDEX

# Mutations
WORDS = [b"2", b"-1", b"1e3", b"18446744073709551616", b"true", b"null", b"[]", b"{}", b'"F16"', b'"', b"}", b"NaN"]


def mutated(data, rng):
    """The bytes with one to three small faults: bytes, words, pieces lost, doubled or moved."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 1, 2, 8, 40)))
        kind = rng.randrange(6)
        if kind == 0:
            data[at:end] = rng.randbytes(end - at)
        elif kind == 1:
            del data[at:end]
        elif kind == 2:
            data[at:at] = data[at:end]
        elif kind == 3:
            data[at:end] = rng.choice(WORDS)
        elif kind == 4:
            numbers = list(re.finditer(rb"\d+", bytes(data)))
            if numbers:
                start, stop = rng.choice(numbers).span()
                data[start:stop] = str(rng.choice((0, 1, 2, 4, 8, 12, 16, 2**31, 2**40, 2**63))).encode()
        else:
            del data[at:]
    return bytes(data)


TENSORS = {
    "layers.0.up.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "layers.0.up.bias": np.arange(2, dtype=np.float16),
    "layers.0.down.weight": np.arange(6, dtype=np.int64).reshape(3, 2),
    "empty": np.zeros((0, 3), np.float32),
    "scalar": np.array(2.5),
}


def right(store):
    """Whether each tensor that the store has is the bytes that its header says, whole and inside its file."""
    for name, info in store.tensors.items():
        data = info.file.read_bytes()
        assert 0 <= info.offset <= info.offset + info.nbytes <= len(data)
        array = store.read(name)
        assert array.shape == info.shape
        assert array.tobytes() == data[info.offset : info.offset + info.nbytes]


def header_of(path):
    """The end of a file's header."""
    return 8 + int.from_bytes(path.read_bytes()[:8], "little")


def test_mutated_headers_give_the_right_bytes_or_an_error(tmp_path):
    rng = random.Random(4)
    path = tmp_path / "model.safetensors"
    save_tensors(path, TENSORS, {"form": "dense"})
    original, header = path.read_bytes(), header_of(path)
    refused = 0
    for number in range(3000):
        path = tmp_path / f"{number}.safetensors"  # writing over a file would wait for the disk
        text = mutated(original[8:header], rng)
        length = len(text) if rng.random() < 0.9 else rng.choice((0, 1, header, 2**32, 2**63))
        path.write_bytes(length.to_bytes(8, "little") + text + original[header:])
        try:
            right(open_store(path))
        except CheckpointError:
            refused += 1
        finally:
            path.unlink()
    assert 1500 < refused < 3000


def test_mutated_files_give_the_right_bytes_or_an_error(tmp_path):
    rng = random.Random(5)
    path = tmp_path / "model.safetensors"
    save_tensors(path, TENSORS)
    original = path.read_bytes()
    refused = 0
    for number in range(1500):
        path = tmp_path / f"{number}.safetensors"
        path.write_bytes(mutated(original, rng))
        try:
            right(open_store(path))
        except CheckpointError:
            refused += 1
        finally:
            path.unlink()
    assert 500 < refused < 1500


@pytest.mark.parametrize("name", [INDEX, "config.json"])
def test_mutated_indexes_and_configs_give_the_right_bytes_or_an_error(sharded, name):
    rng = random.Random(6)
    directory = sharded()
    config = {"model_type": "llama", "hidden_size": 16, "quantization_config": {"weight_block_size": [128, 128]}}
    (directory / "config.json").write_text(json.dumps(config))
    expected = {name: open_store(directory).read(name).tobytes() for name in "abc"}
    original = (directory / name).read_bytes()
    refused = 0
    for _ in range(1500):
        (directory / name).unlink()
        (directory / name).write_bytes(mutated(original, rng))
        try:
            store = open_store(directory)
            assert {name: store.read(name).tobytes() for name in store.tensors} == expected
        except CheckpointError:
            refused += 1
    assert 500 < refused < 1500
