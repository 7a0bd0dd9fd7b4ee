"""Damaged files: refused in a sentence, never read past their end."""

import json
import os

import numpy as np
import pytest

F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
DATA = np.array([1.5, -2.5], np.float32).tobytes()


def packed(header, data=DATA, length=None):
    """The bytes of a safetensors file with this header, which may be bytes or what JSON can say."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    """One tensor of a header."""
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


# One file
HEADERS = {
    "length 2**63": (packed({"a": F32}, length=2**63), "9223372036854775808 bytes; 100000000 are the limit"),
    "length 2**64 - 1": (packed({"a": F32}, length=2**64 - 1), "are the limit"),
    "length over the limit": (packed({"a": F32}, length=100_000_001), "100000001 bytes; 100000000 are the limit"),
    "length past the end": (packed({"a": F32}, length=1000), "the header has 1000 bytes.*cut off"),
    "length too short": (packed({"a": F32}, length=20), "must be JSON"),
    "length 0": (packed(b"", bytes(16)), "must begin with a brace"),
    "empty file": (b"", "has 0 bytes; a safetensors file has 10"),
    "seven bytes": (bytes(7), "has 7 bytes"),
    "length alone": ((2).to_bytes(8, "little"), "has 8 bytes"),
    "zeros": (bytes(1000), "must begin with a brace"),
    "NUL padding": (packed(json.dumps({"a": F32}).encode() + bytes(8)), "must be JSON"),
    "space before": (packed(b" " + json.dumps({"a": F32}).encode()), "must begin with a brace"),
    "byte order mark": (packed(b"\xef\xbb\xbf" + json.dumps({"a": F32}).encode()), "must begin with a brace"),
    "two objects": (packed(b"{}{}", b""), "must be JSON.*Extra data"),
    "a list": (packed(b"[1]", bytes(8)), "must begin with a brace"),
    "not JSON": (packed(b"{a: 1}"), "must be JSON"),
    "single quotes": (packed(b"{'a': 1}"), "must be JSON"),
    "not UTF-8": (packed(b'{"\xff": 1}'), "must be JSON in UTF-8"),
    "UTF-16": (packed('{"a": 1}'.encode("utf-16-le")), "must be JSON"),
    "control character": (packed(b'{"a\x01": 1}'), "must be JSON"),
    "half a surrogate pair": (packed(rb'{"\ud800": {"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'), "in UTF-8"),
    "half a pair, upper case": (packed(rb'{"\uD800": {"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'), "in UTF-8"),
    "nested arrays": (packed(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "nested too deeply"),
    "nested objects": (packed(b'{"a":' * 100_000 + b"1" + b"}" * 100_000), "nested too deeply"),
    "NaN": (packed(b'{"a": NaN}'), "NaN is not JSON"),
    "Infinity": (packed(b'{"a": -Infinity}'), "-Infinity is not JSON"),
    "1e999": (packed(b'{"a": 1e999}'), "beyond float64"),
    "an integer of 5000 digits": (packed(b'{"a": ' + b"9" * 5000 + b"}"), "must be JSON"),
    "twice the same tensor": (packed(b'{"a": %b, "a": %b}' % (2 * (json.dumps(F32).encode(),))), "'a' stands twice"),
    "twice the same key": (
        packed(b'{"a": {"dtype":"F32","dtype":"I32","shape":[2],"data_offsets":[0,8]}}'),
        "'dtype' stands twice",
    ),
    "twice the same text": (packed(b'{"__metadata__": {"a": "b", "a": "c"}}', b""), "'a' stands twice"),
    "metadata no object": (packed({"__metadata__": ["a"], "a": F32}), "__metadata__ must map"),
    "metadata no strings": (packed({"__metadata__": {"a": 1}, "a": F32}), "__metadata__ must map"),
    "metadata null": (packed({"__metadata__": None, "a": F32}), "__metadata__ must map"),
    "entry no object": (packed({"a": [1]}), "'a' must have dtype, shape and data_offsets"),
    "entry null": (packed({"a": None}), "'a' must have dtype, shape and data_offsets"),
    "entry without dtype": (packed({"a": {"shape": [2], "data_offsets": [0, 8]}}), "'a' must have dtype"),
    "entry with more": (packed({"a": F32 | {"strides": [1]}}), "'a' must have dtype, shape and data_offsets, and"),
    "unknown dtype": (packed({"a": entry("F31")}), "unknown dtype 'F31'; known are BOOL"),
    "dtype in small letters": (packed({"a": entry("f32")}), "unknown dtype 'f32'"),
    "dtype no string": (packed({"a": entry(32)}), "unknown dtype 32;"),
    "dtype a list": (packed({"a": entry(["F32"])}), "unknown dtype"),
    "shape no list": (packed({"a": {"dtype": "F32", "shape": 2, "data_offsets": [0, 8]}}), "shape must be a list"),
    "shape negative": (packed({"a": entry(shape=(-2,))}), "shape must be a list"),
    "shape of negatives": (packed({"a": entry(shape=(-1, -2))}), "shape must be a list"),
    "shape fractional": (packed({"a": entry(shape=(2.0,))}), "shape must be a list"),
    "shape boolean": (packed({"a": entry(shape=(2, True))}), "shape must be a list"),
    "shape a string": (packed({"a": entry(shape=("2",))}), "shape must be a list"),
    "shape null": (packed({"a": {"dtype": "F32", "shape": None, "data_offsets": [0, 8]}}), "shape must be a list"),
    "33 axes": (packed({"a": entry(shape=(2, *[1] * 32))}), "at most 32"),
    "100000 axes": (packed({"a": entry(shape=[1] * 100_000)}), "at most 32"),
    "shape 2**40 x 2**40": (packed({"a": entry(shape=(2**40, 2**40))}), "doesn't fit its 8 bytes"),
    "shape 2**31 x 2**31 x 2": (packed({"a": entry("U8", (2**31, 2**31, 4), (0, 0))}, b""), "doesn't fit its 0 bytes"),
    "shape that wraps around": (packed({"a": entry(shape=(2**62, 2, 2))}), "doesn't fit its 8 bytes"),
    "shape 2**63": (packed({"a": entry(shape=(2**63, 0), offsets=(0, 0))}, b""), "shape must be a list"),
    "empty but huge": (packed({"a": entry(shape=(0, 2**40, 2**40), offsets=(0, 0))}, b""), "doesn't fit its 0 bytes"),
    "too few bytes": (packed({"a": entry(shape=(3,))}), "doesn't fit its 8 bytes"),
    "too many bytes": (packed({"a": entry(shape=(1,))}), "doesn't fit its 8 bytes"),
    "half a byte": (packed({"a": entry("F4", (3,), (0, 2))}, b"12"), "doesn't fit its 2 bytes"),
    "one offset": (packed({"a": entry(offsets=(8,))}), r"data_offsets must be \[begin, end\]"),
    "three offsets": (packed({"a": entry(offsets=(0, 4, 8))}), "data_offsets must be"),
    "offsets backwards": (packed({"a": entry(offsets=(8, 0))}), "data_offsets must be"),
    "offsets negative": (packed({"a": entry(offsets=(-8, 0))}), "data_offsets must be"),
    "offsets fractional": (packed({"a": entry(offsets=(0.0, 8.0))}), "data_offsets must be"),
    "offsets of 2**64": (packed({"a": entry(offsets=(2**64, 2**64 + 8))}), "data_offsets must be"),
    "offsets past the end": (packed({"a": entry(offsets=(0, 8))}, b"1234"), "ends? at byte.*cut off"),
    "offsets far past the end": (packed({"a": entry(offsets=(2**62, 2**62 + 8))}), "there is a hole"),
    "one byte short": (packed({"a": F32}, DATA[:-1]), "cut off"),
    "one byte over": (packed({"a": F32}, DATA + b"x"), "the rest belongs to no tensor"),
    "data without tensors": (packed({}), "the rest belongs to no tensor"),
    "overlapping": (packed({"a": F32, "b": entry(offsets=(4, 12))}, bytes(12)), "'b' begins .*they overlap"),
    "the same bytes twice": (packed({"a": F32, "b": F32}), "they overlap"),
    "one inside the other": (
        packed({"a": entry(shape=(4,), offsets=(0, 16)), "b": entry(offsets=(4, 12))}, bytes(16)),
        "they overlap",
    ),
    "a hole before": (packed({"a": entry(offsets=(4, 12))}, bytes(12)), "'a' begins .*the header ends.*hole"),
    "a hole between": (packed({"a": F32, "b": entry(offsets=(12, 20))}, bytes(20)), "'b' begins .*hole"),
    "empty inside another": (packed({"a": F32, "b": entry(shape=(0,), offsets=(4, 4))}), "they overlap"),
}  # fmt: skip


@pytest.mark.parametrize("case", HEADERS)
def test_a_damaged_header_is_refused(tmp_path, refused, case):
    data, words = HEADERS[case]
    (tmp_path / "model.safetensors").write_bytes(data)
    (tmp_path / "config.json").write_text("{}")
    refused(tmp_path / "model.safetensors", words)
    refused(tmp_path, words)


def test_a_header_over_the_limit_is_refused_unread(tmp_path, refused):
    path = tmp_path / "model.safetensors"
    path.write_bytes((200_000_000).to_bytes(8, "little") + b"{")
    os.truncate(path, 10**12)
    refused(path, "200000000 bytes; 100000000 are the limit")
    for name in ("config.json", "model.safetensors.index.json"):
        (tmp_path / name).write_bytes(b"{")
        os.truncate(tmp_path / name, 10**12)
        refused(tmp_path, "JSON of 1000000000000 bytes; 100000000 are the limit")
