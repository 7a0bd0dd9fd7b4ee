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


KINDS = [kind.name for kind in quants._type_traits]


@pytest.mark.parametrize("kind", KINDS)
def test_every_type_is_read_as_the_package_decodes_it(tmp_path, kind):
    block, nbytes = gguf.GGML_QUANT_SIZES[Kind[kind]]
    # Bytes below 64 everywhere: whatever of them is a scale is a finite one.
    raw = np.random.default_rng(3).integers(0, 64, (3, 40, 512 // block * nbytes), dtype=np.uint8)
    name = "blk.0.ffn_up_exps.weight"
    store = open_store(write(tmp_path / "m.gguf", {name: (raw, Kind[kind]), "a": weights((2, 2))}))
    expected = quants.dequantize(raw, Kind[kind])
    assert store.logical[name].shape == expected.shape == (3, 40, 512)
    np.testing.assert_array_equal(store.read_logical(name).astype(np.float32), expected)
    np.testing.assert_array_equal(store.read_logical(name, row=2).astype(np.float32), expected[2])
    assert store.formats == ({} if kind == "BF16" else {name: f"GGUF {kind}"})


@pytest.mark.parametrize(("number", "name"), [(41, "Q1_0"), (42, "Q2_0"), (31, "Q4_0_4_4")])
def test_a_type_that_is_not_decoded_is_named_when_it_is_read(tmp_path, number, name):
    entries = tensor(b"blk.0.ffn_up.weight", [128, 4], number, 0) + tensor(b"a", [8], 0, 96)
    data = header(tensors=2, rest=entries)
    (tmp_path / "m.gguf").write_bytes(data + bytes(-len(data) % 32) + bytes(128))
    store = open_store(tmp_path / "m.gguf")
    assert store.logical["blk.0.ffn_up.weight"][1:3] == (f"GGUF {name}", (4, 128))
    with pytest.raises(CheckpointError, match=f"'blk.0.ffn_up.weight' is quantised as GGUF {name} .*not read"):
        store.read_logical("blk.0.ffn_up.weight")
    np.testing.assert_array_equal(store.read_logical("a"), np.zeros(8, np.float32))


@pytest.mark.parametrize("plain", [True, False])
def test_a_factor_beside_a_weight_multiplies_it(tmp_path, plain):
    one, experts = weights((4, 32)), weights((3, 4, 32), 1)
    kind = Kind.F32 if plain else Kind.Q8_0
    factors = {"blk.0.ffn_up.scale": np.array([3.0], np.float32), "blk.0.ffn_up_exps.scale": weights(3, 2)}
    tensors = {
        "blk.0.ffn_up.weight": (quants.quantize(one, kind), kind),
        "blk.0.ffn_up_exps.weight": (quants.quantize(experts, kind), kind),
    }
    bare = open_store(write(tmp_path / "bare.gguf", tensors))
    store = open_store(write(tmp_path / "m.gguf", tensors | factors))
    assert set(store.logical) == set(tensors)
    for name, factor in zip(tensors, factors.values(), strict=True):
        expected = bare.read_logical(name) * (factor[:, None, None] if factor.size > 1 else factor)
        np.testing.assert_array_equal(store.read_logical(name), expected)
    name = "blk.0.ffn_up_exps.weight"
    np.testing.assert_array_equal(store.read_logical(name, row=1), store.read_logical(name)[1])
    assert store.sources(name) == (name, "blk.0.ffn_up_exps.scale")


def test_a_factor_of_another_shape_is_refused(tmp_path):
    tensors = {"blk.0.ffn_up.weight": weights((4, 32)), "blk.0.ffn_up.scale": np.ones(4, np.float32)}
    store = open_store(write(tmp_path / "m.gguf", tensors))
    with pytest.raises(CheckpointError, match=r"ffn_up\.scale must be one float32, or one for each expert"):
        store.read_logical("blk.0.ffn_up.weight")


def part(path, number, count, tensors):
    """One part of a split file."""
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in (("no", number), ("count", count), ("tensors.count", 2)):
        writer.add_uint16(f"split.{key}", value)
    for name, value in tensors.items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_the_parts_of_a_split_file_are_one_by_the_directory_or_any_part(tmp_path):
    first = part(tmp_path / "m-00001-of-00002.gguf", 0, 2, {"a": weights((2, 2))})
    second = part(tmp_path / "m-00002-of-00002.gguf", 1, 2, {"b": weights((3, 2), 1)})
    for path in (tmp_path, first, second):
        store = open_store(path)
        assert set(store.tensors) == {"a", "b"}
        np.testing.assert_array_equal(store.read_logical("b"), weights((3, 2), 1))
    second.unlink()
    for path in (tmp_path, first):
        with pytest.raises(CheckpointError, match=r"lacks m-00002-of-00002\.gguf of the 2 parts of m"):
            open_store(path)
    part(second, 0, 2, {"b": weights((3, 2), 1)})
    with pytest.raises(CheckpointError, match=r"says that it is part 0 of 2 .* stands as part 1 of 2"):
        open_store(first)
    part(second, 1, 2, {"a": weights((3, 2), 1)})
    with pytest.raises(CheckpointError, match=r"'a' is in m-00001-of-00002\.gguf too"):
        open_store(first)


def test_several_files_are_refused(tmp_path):
    write(tmp_path / "a.gguf", {"a": weights((2, 2))})
    write(tmp_path / "b.gguf", {"a": weights((2, 2))})
    with pytest.raises(CheckpointError, match=r"several GGUF files, a\.gguf, b\.gguf; give the path of one"):
        open_store(tmp_path)
    part(tmp_path / "c.gguf", 0, 3, {})
    with pytest.raises(CheckpointError, match="says that it is part 0 of 3 of a split GGUF"):
        open_store(tmp_path / "c.gguf")


def test_old_names_are_those_of_today(tmp_path):
    old = {f"blk.0.ffn_{part}.{n}.weight": weights((8, 4), n) for part in ("gate", "up") for n in range(2)}
    old |= {f"blk.0.ffn_down.{n}.weight": weights((4, 8), 9 + n) for n in range(2)}
    packed = quants.quantize(weights((4, 32)), Kind.Q8_0)
    old["blk.1.ffn_gate.0.weight"] = packed, Kind.Q8_0
    store = open_store(write(tmp_path / "m.gguf", old))
    new = "blk.0.experts.1.ffn_gate.weight"
    assert new in store.logical
    assert set(store.tensors) == set(old)
    np.testing.assert_array_equal(store.read_logical(new), old["blk.0.ffn_gate.1.weight"])
    decoded = store.read_logical("blk.1.experts.0.ffn_gate.weight")
    np.testing.assert_array_equal(decoded, quants.dequantize(packed, Kind.Q8_0))
    assert store.sources(new) == ("blk.0.ffn_gate.1.weight",)


@pytest.mark.parametrize("swapped", [True, False])
def test_the_matrices_of_old_image_encoders_are_told_by_their_width(tmp_path, swapped):
    first, second = weights((8, 4)), weights((4, 8), 1)
    names = ("ffn_down", "ffn_up") if swapped else ("ffn_up", "ffn_down")
    tensors = {f"v.blk.0.{name}.weight": value for name, value in zip(names, (first, second), strict=True)}
    tensors |= {f"v.blk.0.{names[0]}.bias": weights(8, 2)}
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "clip")
    writer.add_uint32("clip.vision.embedding_length", 4)
    for name, value in tensors.items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    store = open_store(tmp_path / "m.gguf")
    np.testing.assert_array_equal(store.read_logical("v.blk.0.ffn_up.weight"), first)
    np.testing.assert_array_equal(store.read_logical("v.blk.0.ffn_up.bias"), weights(8, 2))
    assert store.sources("v.blk.0.ffn_down.weight") == (f"v.blk.0.{names[1]}.weight",)


def test_big_endian_is_refused(tmp_path):
    path = write(tmp_path / "m.gguf", {"a": weights((2, 2))}, endianess=gguf.GGUFEndian.BIG)
    with pytest.raises(CheckpointError, match="big-endian"):
        open_store(path)


def test_without_the_package_the_message_says_what_to_install(tmp_path, monkeypatch):
    path = write(tmp_path / "m.gguf", {"a": weights((2, 2))})
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(CheckpointError, match=r"needs the package gguf; pip install portable-ffn\[gguf\]"):
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
        (header(tensors=1, rest=tensor(b"a", [2**40, 2**40], 0, 0) + bytes(64)), "is none that can be"),
        (header(tensors=1, rest=tensor(b"a", [0, 2**62], 0, 0) + bytes(64)), "is none that can be"),
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
