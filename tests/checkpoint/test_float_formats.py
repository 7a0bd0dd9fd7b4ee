"""Formats of small floats, and bitsandbytes: value by value, as each format's own words define it."""

import json
import math

import numpy as np
import pytest

from portable_ffn.checkpoint._errors import CheckpointError
from tests.checkpoint.packed import RNG, codes, opened, same, scales

ml_dtypes = pytest.importorskip("ml_dtypes", reason="float8 in NumPy is its")

U = "model.layers.0.mlp.up_proj."


def e2m1(code):
    """One value of E2M1 (OCP MX v1.0, table 1: bias 1)."""
    sign, exponent, mantissa = -1 if code >> 3 else 1, code >> 1 & 3, code & 1
    return sign * (math.ldexp(2 + mantissa, exponent - 2) if exponent else mantissa / 2)


def e2m3(code):
    """One value of E2M3 (OCP MX v1.0, table 2: bias 1)."""
    sign, exponent, mantissa = -1 if code >> 5 else 1, code >> 3 & 3, code & 7
    return sign * (math.ldexp(8 + mantissa, exponent - 4) if exponent else mantissa / 8)


def nibbles(q):
    """Codes of four bits, the first in the low half."""
    return (q[..., ::2] | q[..., 1::2] << 4).astype(np.uint8)


def values(decode, q):
    """Each code decoded."""
    return np.vectorize(lambda code: decode(int(code)))(q).astype(np.float64)


def exponents(shape):
    """Bytes of E8M0 round 1."""
    return RNG.integers(120, 134, shape).astype(np.uint8)


def spread(factors, size):
    """A factor for each value of a group of `size`."""
    return np.repeat(np.asarray(factors, np.float64), size, axis=-1)


@pytest.mark.parametrize("divide", [True, False])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_nvfp4(tmp_path, divide, shape):
    q, factors = codes((8, 48), 4), scales((8, 3)).astype(ml_dtypes.float8_e4m3fn)
    whole = np.full(shape, 3.0, np.float32)
    packed, factor = ("weight_packed", "weight_global_scale") if divide else ("weight", "weight_scale_2")
    tensors = {U + packed: nibbles(q), U + "weight_scale": factors, U + factor: whole, U + "input_scale": whole}
    store = opened(tmp_path, tensors, {"quant_method": "compressed-tensors" if divide else "modelopt"})
    same(store, U + "weight", values(e2m1, q) * spread(factors, 16) * (1 / 3 if divide else 3))
    assert set(store.logical) == {U + "weight"}


@pytest.mark.parametrize(
    ("name", "scale", "kind"),
    [
        ("weight_packed", "weight_scale", np.uint8),
        ("weight", "weight_scale", np.uint8),
        ("weight", "weight_scale_inv", ml_dtypes.float8_e8m0fnu),
        ("weight", "scale", ml_dtypes.float8_e8m0fnu),
    ],
)
@pytest.mark.parametrize("signed", [False, True])
def test_mxfp4(tmp_path, name, scale, kind, signed):
    q, bytes_ = codes((8, 96), 4), exponents((8, 3))
    packed = nibbles(q).view(np.int8) if signed and name == "weight" else nibbles(q)
    store = opened(tmp_path, {U + name: packed, U + scale: bytes_.view(kind)}, {"quant_method": "fp8"})
    same(store, U + "weight", values(e2m1, q) * spread(2.0 ** (bytes_ - 127.0), 32))
    assert store.formats == {U + "weight": "MXFP4"}


def test_mxfp6(tmp_path):
    q, bytes_ = codes((8, 96), 6), exponents((8, 3))
    number = [sum(int(code) << (6 * place) for place, code in enumerate(row)) for row in q]
    packed = np.array([np.frombuffer(n.to_bytes(72, "little"), np.uint8) for n in number])
    tensors = {U + "weight_packed": packed, U + "weight_scale": bytes_}
    same(opened(tmp_path, tensors, {}), U + "weight", values(e2m3, q) * spread(2.0 ** (bytes_ - 127.0), 32))


@pytest.mark.parametrize("kind", [np.uint8, ml_dtypes.float8_e8m0fnu])
@pytest.mark.parametrize("width", [32, 96])
@pytest.mark.parametrize("name", ["weight_scale", "weight_scale_inv", "scale"])
def test_a_scale_of_bytes_beside_floats_of_eight_bits_is_an_exponent(tmp_path, kind, width, name):
    q = RNG.standard_normal((8, width)).astype(ml_dtypes.float8_e4m3fn)
    bytes_ = exponents((8, width // 32))
    store = opened(tmp_path, {U + "weight": q, U + name: bytes_.view(kind)}, {"quant_method": "fp8"})
    same(store, U + "weight", q.astype(np.float64) * spread(2.0 ** (bytes_ - 127.0), 32))
    assert store.formats == {U + "weight": "MXFP8"}


def test_an_exponent_of_255_is_nan(tmp_path):
    q = np.ones((2, 32), ml_dtypes.float8_e4m3fn)
    store = opened(tmp_path, {U + "weight": q, U + "weight_scale": np.array([[255], [127]], np.uint8)})
    assert np.isnan(store.read_logical(U + "weight")).sum(axis=1).tolist() == [32, 0]


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.uint16])
def test_a_scale_that_is_neither_float_nor_exponent_is_refused(tmp_path, kind):
    tensors = {U + "weight": np.ones((2, 32), ml_dtypes.float8_e4m3fn), U + "weight_scale": np.ones((2, 1), kind)}
    store = opened(tmp_path, tensors)
    with pytest.raises(CheckpointError, match="must be a float or an exponent of eight bits"):
        store.read_logical(U + "weight")


@pytest.mark.parametrize(("mode", "bits", "group"), [("mxfp4", 4, 32), ("nvfp4", 4, 16), ("mxfp8", 8, 32)])
def test_floats_of_mlx(tmp_path, mode, bits, group):
    if bits == 4:
        q = codes((3, 8, 96), 4)
        packed, expected = nibbles(q).view(np.uint32), values(e2m1, q)
    else:
        floats = RNG.standard_normal((3, 8, 96)).astype(ml_dtypes.float8_e4m3fn)
        packed, expected = floats.view(np.uint32), floats.astype(np.float64)
    if mode == "nvfp4":
        scale = scales((3, 8, 6)).astype(ml_dtypes.float8_e4m3fn)
        stored, factors = scale.view(np.uint8), scale.astype(np.float64)
    else:
        stored = exponents((3, 8, 3))
        factors = 2.0 ** (stored - 127.0)
    config = {"group_size": group, "bits": bits, "mode": mode}
    store = opened(tmp_path, {U + "weight": packed, U + "scales": stored}, quantization=config)
    same(store, U + "weight", expected * spread(factors, group))
    np.testing.assert_array_equal(store.read_logical(U + "weight", 2), store.read_logical(U + "weight")[2])


# bitsandbytes


def four_bits(shape, block, nested, kind="nf4", storage=np.uint8):
    """The tensors of a layer of four bits, and its weight."""
    count = math.prod(shape)
    q, table = codes(count + count % 2, 4), np.sort(RNG.standard_normal(16)).astype(np.float32)
    blocks = -(-count // block)
    state = {"quant_type": kind, "blocksize": block, "dtype": "bfloat16", "shape": list(shape)}
    beside = {"quant_map": table}
    if nested:
        inner = RNG.standard_normal(256).astype(np.float32)
        bytes_, outer = codes(blocks, 8).astype(np.uint8), scales(-(-blocks // 4), np.float32)
        absmax = inner[bytes_].astype(np.float64) * np.repeat(outer, 4)[:blocks] + np.float64(np.float32(0.25))
        state |= {"nested_blocksize": 4, "nested_offset": 0.25, "nested_dtype": "float32"}
        beside |= {"absmax": bytes_, "nested_absmax": outer, "nested_quant_map": inner}
    else:
        absmax = scales(blocks, np.float32)
        beside |= {"absmax": absmax}
    text = np.frombuffer(json.dumps(state).encode(), np.uint8)
    packed = (q[::2] << 4 | q[1::2]).astype(np.uint8)
    tensors = {U + "weight": packed.view(storage).reshape(-1, 1), U + f"weight.quant_state.bitsandbytes__{kind}": text}
    tensors |= {f"{U}weight.{name}": value for name, value in beside.items()}
    expected = table[q[:count]].astype(np.float64) * np.repeat(absmax, block)[:count]
    return tensors, expected.reshape(shape)


@pytest.mark.parametrize("shape", [(8, 96), (12, 50), (7, 9), (2, 8, 96)])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("kind", ["nf4", "fp4"])
def test_bitsandbytes_of_four_bits(tmp_path, shape, nested, kind):
    tensors, expected = four_bits(shape, 64, nested, kind)
    store = opened(tmp_path, tensors, {"quant_method": "bitsandbytes"})
    got = store.read_logical(U + "weight")
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)
    assert store.formats == {U + "weight": f"bitsandbytes {kind}{' nested' if nested else ''}, blocks of 64"}
    assert set(store.logical) == {U + "weight"}


@pytest.mark.parametrize("storage", [np.uint8, np.float32, ml_dtypes.bfloat16, np.float16])
def test_bitsandbytes_under_another_dtype(tmp_path, storage):
    tensors, expected = four_bits((8, 96), 128, False, "nf4", storage)
    same(opened(tmp_path, tensors), U + "weight", expected)


def test_bitsandbytes_int8(tmp_path):
    q, rows = codes((8, 96), 8).astype(np.int8), scales(8, np.float32)
    tensors = {U + "weight": q, U + "SCB": rows, U + "weight_format": np.zeros((), np.uint8)}
    same(opened(tmp_path, tensors), U + "weight", q * rows[:, None].astype(np.float64) / 127)
    store = opened(tmp_path, tensors | {U + "weight_format": np.ones((), np.uint8)})
    with pytest.raises(CheckpointError, match="must be 0, the layout row by row"):
        store.read_logical(U + "weight")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shape": [8, 97]}, "must hold 388 bytes"),
        ({"shape": [2**39, 2**39]}, "a shape of .* is none that can be"),
        ({"shape": "x"}, "must give a shape"),
        ({"blocksize": 0}, "must give a blocksize"),
        ({"blocksize": 32}, r"absmax must have shape \(24,\)"),
        (None, "must be JSON, and isn't"),
    ],
)
def test_a_state_of_bitsandbytes_that_is_wrong_is_refused(tmp_path, change, words):
    tensors, _ = four_bits((8, 96), 64, False)
    name = U + "weight.quant_state.bitsandbytes__nf4"
    text = b"{" if change is None else json.dumps(json.loads(tensors[name].tobytes()) | change).encode()
    store = opened(tmp_path, tensors | {name: np.frombuffer(text, np.uint8)})
    with pytest.raises(CheckpointError, match=words):
        store.read_logical(U + "weight")


def test_a_table_of_another_length_is_refused(tmp_path):
    tensors, _ = four_bits((8, 96), 64, False)
    store = opened(tmp_path, tensors | {U + "weight.quant_map": np.zeros(15, np.float32)})
    with pytest.raises(CheckpointError, match=r"quant_map must have shape \(16,\)"):
        store.read_logical(U + "weight")
