"""Codes packed by hand, one after another into a long number: what the decoders are checked against."""

import json

import numpy as np

from portable_ffn.checkpoint._files.save import save_tensors
from portable_ffn.checkpoint._tensors.store import open_store

RNG = np.random.default_rng(7)


def words(codes, bits, dtype=np.int32):
    """Rows of codes (rows, n) as words of 32 bits (rows, words), the first code in the lowest bits."""
    rows = []
    for row in codes:
        number = sum(int(code) << (bits * place) for place, code in enumerate(row))
        length = -(-len(row) * bits // 32)
        rows.append(np.frombuffer(number.to_bytes(4 * length, "little"), "<u4"))
    return np.array(rows).view(dtype)


def codes(shape, bits):
    """Random codes."""
    return RNG.integers(0, 1 << bits, shape)


def scales(shape, dtype=np.float16):
    """Random scales."""
    return (RNG.random(shape) + 0.5).astype(dtype)


def opened(directory, tensors, quantisation=None, **config):
    """A store of these tensors with such a config."""
    if quantisation is not None:
        config["quantization_config"] = quantisation
    (directory / "config.json").write_text(json.dumps(config))
    save_tensors(directory / "model.safetensors", tensors)
    return open_store(directory)


def same(store, name, expected):
    """Whether a logical tensor is these values, to a rounding of float32."""
    got = store.read_logical(name)
    assert got.dtype == np.float32
    assert store.logical[name].shape == got.shape == expected.shape
    assert store.logical[name].dtype == "float32"
    np.testing.assert_allclose(got, expected, rtol=3e-7, atol=1e-30)
