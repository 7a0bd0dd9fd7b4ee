"""GGUF files that the package gguf writes are read as it means them; damaged ones and other formats are refused."""

import random
import struct
import sys

import numpy as np
import pytest

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._tensors.store import open_store

gguf = pytest.importorskip("gguf", reason="the real writer of GGUF")
ml_dtypes = pytest.importorskip("ml_dtypes", reason="bfloat16 in NumPy is its")
quants = pytest.importorskip("gguf.quants")
Kind = gguf.GGMLQuantizationType


def weights(shape, seed=0):
    """Random numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def write(path, tensors, **options):
    """A GGUF file of arrays, or of (bytes of a quantised array, its type), by the package itself."""
    tokens = options.pop("tokens", 5000)
    writer = gguf.GGUFWriter(path, options.pop("arch", "llama"), **options)
    writer.add_feed_forward_length([8, 16])
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_token_list([f"token {number}" for number in range(tokens)])
    writer.add_chat_template("a template")
    for name, value in tensors.items():
        if isinstance(value, tuple):
            writer.add_tensor(name, value[0], raw_dtype=value[1])
        else:
            writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_plain_types_are_read_bit_for_bit_with_the_shape_of_numpy(tmp_path):
    up = weights((24, 64))
    tensors = {
        "blk.0.ffn_up.weight": up,
        "blk.0.ffn_gate.weight": up.astype(np.float16),
        "blk.0.ffn_down.weight": (quants.quantize(up, Kind.BF16), Kind.BF16),
        "blk.0.ffn_up_exps.weight": weights((3, 5, 7), 1),
        "blk.0.ffn_norm.weight": weights(7, 2).astype(np.float64),
        "some.indices": np.arange(5, dtype=np.int32),
    }
    write(tmp_path / "m.gguf", tensors)
    expected = tensors | {"blk.0.ffn_down.weight": up.astype(ml_dtypes.bfloat16)}
    for path in (tmp_path / "m.gguf", tmp_path):
        store = open_store(path)
        assert set(store.tensors) == set(store.logical) == set(expected)
        for name, value in expected.items():
            got = store.read_logical(name)
            assert (got.dtype, got.shape) == (value.dtype, value.shape)
            assert store.logical[name].shape == value.shape
            assert store.logical[name].dtype == value.dtype.name
            assert not got.flags.writeable
            np.testing.assert_array_equal(got, value)


def test_metadata_serve_as_the_config(tmp_path):
    store = open_store(write(tmp_path / "m.gguf", {"a": weights((2, 2))}, arch="gemma2"))
    assert store.config["general.architecture"] == "gemma2"
    assert store.config["gemma2.feed_forward_length"] == [8, 16]
    assert store.config["gemma2.attention.layer_norm_rms_epsilon"] == pytest.approx(1e-6)
    assert "tokenizer.ggml.tokens" not in store.config
    assert store.metadata["general.architecture"] == "gemma2"
    assert store.metadata["tokenizer.chat_template"] == "a template"


def q8_0(data):
    """One row of Q8_0, value by value: 32 signed bytes follow their float16 factor."""
    row = []
    for at in range(0, len(data), 34):
        (factor,) = struct.unpack_from("<e", data, at)
        row += [np.float32(factor) * np.float32(code) for code in struct.unpack_from("<32b", data, at + 2)]
    return row


def test_q8_0_is_read_value_by_value(tmp_path):
    up, experts = weights((24, 64)), weights((3, 4, 32), 1)
    tensors = {
        "blk.0.ffn_up.weight": (quants.quantize(up, Kind.Q8_0), Kind.Q8_0),
        "blk.0.ffn_up_exps.weight": (quants.quantize(experts, Kind.Q8_0), Kind.Q8_0),
    }
    store = open_store(write(tmp_path / "m.gguf", tensors))
    expected = np.array([q8_0(row.tobytes()) for row in tensors["blk.0.ffn_up.weight"][0]], np.float32)
    got = store.read_logical("blk.0.ffn_up.weight")
    np.testing.assert_array_equal(got, expected)
    assert np.abs(got - up).max() < np.abs(up).max() / 127
    assert dict(store.formats) == dict.fromkeys(tensors, "GGUF Q8_0")
    assert store.logical["blk.0.ffn_up.weight"][1:3] == ("float32", (24, 64))
    assert store.tensors["blk.0.ffn_up.weight"][1:3] == ("uint8", (24, 68))
    name = "blk.0.ffn_up_exps.weight"
    assert store.logical[name].shape == (3, 4, 32) == store.read_logical(name).shape
    np.testing.assert_array_equal(store.read_logical(name, row=1), store.read_logical(name)[1])


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_K", "Q6_K", "IQ4_XS", "MXFP4", "TQ2_0"])
def test_other_quantisations_are_opened_and_named_when_read(tmp_path, kind):
    block, nbytes = gguf.GGML_QUANT_SIZES[Kind[kind]]
    raw = np.zeros((4, 256 // block * nbytes), np.uint8)
    store = open_store(write(tmp_path / "m.gguf", {"blk.0.ffn_up.weight": (raw, Kind[kind]), "a": weights((2, 2))}))
    assert store.logical["blk.0.ffn_up.weight"][1:3] == (f"GGUF {kind}", (4, 256))
    with pytest.raises(CheckpointError, match=f"'blk.0.ffn_up.weight' is quantised as GGUF {kind} .*not read"):
        store.read_logical("blk.0.ffn_up.weight")
    np.testing.assert_array_equal(store.read_logical("a"), weights((2, 2)))


def test_several_files_or_a_part_of_one_are_refused(tmp_path):
    write(tmp_path / "a.gguf", {"a": weights((2, 2))})
    write(tmp_path / "b.gguf", {"a": weights((2, 2))})
    with pytest.raises(CheckpointError, match=r"several GGUF files, a\.gguf, b\.gguf; give the path of one"):
        open_store(tmp_path)
    writer = gguf.GGUFWriter(tmp_path / "c.gguf", "llama")
    writer.add_uint16("split.count", 3)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(CheckpointError, match="one part of a split GGUF; join them"):
        open_store(tmp_path / "c.gguf")


def test_big_endian_is_refused(tmp_path):
    path = write(tmp_path / "m.gguf", {"a": weights((2, 2))}, endianess=gguf.GGUFEndian.BIG)
    with pytest.raises(CheckpointError, match="big-endian"):
        open_store(path)


def test_without_the_package_the_message_says_what_to_install(tmp_path, monkeypatch):
    path = write(tmp_path / "m.gguf", {"a": weights((2, 2))})
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(CheckpointError, match="needs the package gguf; pip install gguf"):
        open_store(path)


def header(version=3, tensors=0, pairs=0, rest=b""):
    """The start of a GGUF file."""
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs) + rest


def text(value):
    """A string of GGUF."""
    return struct.pack("<Q", len(value)) + value


def pair(key, kind, value):
    """A metadata entry."""
    return text(key) + struct.pack("<I", kind) + value


def tensor(name, axes, kind, offset):
    """A tensor's entry, the last axis first."""
    return text(name) + struct.pack(f"<I{len(axes)}QIQ", len(axes), *axes, kind, offset)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "24 at least"),
        (b"GGUF", "24 at least"),
        (b"GGML" + bytes(40), "no GGUF file"),
        (header(version=1), "version 1"),
        (header(version=4), "version 4"),
        (header(tensors=2**63), "more than the file can hold"),
        (header(pairs=2**64 - 1), "more than the file can hold"),
        (header(pairs=1, rest=struct.pack("<Q", 2**63) + bytes(32)), "past the file's end"),
        (header(pairs=1, rest=pair(b"k", 9, struct.pack("<IQ", 0, 2**60)) + bytes(32)), "past the file's end"),
        (header(pairs=1, rest=pair(b"k", 9, struct.pack("<IQ", 8, 2**60)) + bytes(32)), "more than the file can"),
        (header(pairs=1, rest=pair(b"k", 9, struct.pack("<IQ", 9, 1)) + bytes(32)), "values of the unknown type 9"),
        (header(pairs=1, rest=pair(b"k", 13, bytes(32))), "unknown type 13"),
        (header(pairs=1, rest=pair(b"\xff", 0, bytes(32))), "not UTF-8"),
        (header(pairs=2, rest=pair(b"k", 0, b"1") * 2), "'k' stands twice"),
        (header(pairs=1, rest=pair(b"general.alignment", 4, struct.pack("<I", 0))), "multiple of 8"),
        (header(tensors=1, rest=tensor(b"a", [1], 99, 0) + bytes(64)), "unknown type 99"),
        (header(tensors=1, rest=tensor(b"a", [1] * 9, 0, 0) + bytes(64)), "a tensor of 9 axes"),
        (header(tensors=1, rest=tensor(b"a", [2**40, 2**40], 0, 0) + bytes(64)), "doesn't fit F32"),
        (header(tensors=1, rest=tensor(b"a", [0, 2**62], 0, 0) + bytes(64)), "doesn't fit F32"),
        (header(tensors=1, rest=tensor(b"a", [31], 8, 0) + bytes(64)), "doesn't fit Q8_0"),
        (header(tensors=1, rest=tensor(b"a", [8], 0, 2**60) + bytes(64)), "cut off"),
        (header(tensors=1, rest=tensor(b"a", [8], 0, 4) + bytes(99)), "overlap with others, or"),
        (header(tensors=1, rest=tensor(b"a", [80], 0, 0) + bytes(64)), "cut off"),
        (header(tensors=2, rest=tensor(b"a", [8], 0, 0) + tensor(b"b", [8], 0, 0) + bytes(99)), "overlap"),
        (header(tensors=2, rest=tensor(b"a", [0], 0, 0) * 2 + bytes(99)), "'a' stands twice"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, data, words):
    (tmp_path / "m.gguf").write_bytes(data)
    with pytest.raises(CheckpointError, match=words):
        open_store(tmp_path / "m.gguf")


def test_mutated_files_are_read_right_or_refused(tmp_path):
    up = weights((4, 32))
    original = write(
        tmp_path / "m.gguf", {"up": up, "gate": (quants.quantize(up, Kind.Q8_0), Kind.Q8_0)}, tokens=20
    ).read_bytes()
    rng = random.Random(11)
    header_size = len(original) - up.nbytes - 4 * 34
    refused = 0
    for number in range(1500):
        path = tmp_path / f"{number}.gguf"  # writing over a file would wait for the disk
        data = bytearray(original)
        for _ in range(rng.choice((1, 1, 2))):
            data[rng.randrange(header_size)] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        path.write_bytes(data[: rng.choice((len(data), len(data), rng.randrange(len(data))))])
        try:
            store = open_store(path)
            for name in store.logical:
                array = store.read_logical(name)
                assert array.shape == store.logical[name].shape
        except CheckpointError:
            refused += 1
    assert 300 < refused < 1500
