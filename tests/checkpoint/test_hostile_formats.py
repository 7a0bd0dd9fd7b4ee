"""Layers of every format with one thing wrong: one clear error or the right shape, in little time and memory."""

import tracemalloc

import numpy as np
import pytest

from portable_ffn import checkpoint
from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._tensors.formats import FORMATS
from tests.checkpoint.packed import codes, opened, scales
from tests.checkpoint.test_float_formats import exponents, four_bits, nibbles
from tests.checkpoint.test_formats import U, compressed, gptq, said

ml_dtypes = pytest.importorskip("ml_dtypes", reason="float8 in NumPy is its")

ORDER = np.random.default_rng(0).permutation(np.arange(64) // 32)


def awq():
    """The tensors of an AWQ layer."""
    words = np.random.default_rng(1).integers(0, 2**31, (66, 5)).astype(np.int32)
    return {U + "qweight": words[:64], U + "qzeros": words[64:], U + "scales": scales((2, 40))}


LAYERS = {
    "GPTQ": (gptq(4, 64, 32, 2, 1, ORDER)[0], {"quant_method": "gptq", "bits": 4}),
    "GPTQ of 3 bits": (gptq(3, 64, 32, 2, 1)[0], {"quant_method": "gptq", "bits": 3, "group_size": 32}),
    "AWQ": (awq(), {"quant_method": "awq", "bits": 4}),
    "nf4": (four_bits((8, 96), 64, True)[0], {"quant_method": "bitsandbytes"}),
    "fp4": (four_bits((8, 96), 64, False, "fp4")[0], {"quant_method": "bitsandbytes"}),
    "int8": ({U + "weight": codes((8, 96), 8).astype(np.int8), U + "SCB": scales(8, np.float32)}, {}),
    "MLX": (
        {
            U + "weight": codes((8, 12), 32).astype(np.uint32),
            U + "scales": scales((8, 3)),
            U + "biases": scales((8, 3)),
        },
        {"group_size": 32, "bits": 4},
    ),
    "compressed-tensors": (compressed(4, 32, 96, 3, order=np.sort(np.arange(96) % 3))[0], said(4)),
    "NVFP4": (
        {
            U + "weight": nibbles(codes((8, 48), 4)),
            U + "weight_scale": scales((8, 3)).astype(ml_dtypes.float8_e4m3fn),
            U + "weight_scale_2": np.ones((), np.float32),
        },
        {"quant_method": "modelopt"},
    ),
    "NVFP4 of compressed-tensors": (
        {
            U + "weight_packed": nibbles(codes((8, 48), 4)),
            U + "weight_scale": scales((8, 3)).astype(ml_dtypes.float8_e4m3fn),
            U + "weight_global_scale": np.ones(1, np.float32),
        },
        {"quant_method": "compressed-tensors"},
    ),
    "int8 of compressed-tensors": (
        {
            U + "weight": codes((8, 96), 8).astype(np.int8),
            U + "weight_scale": scales((8, 3)),
            U + "weight_zero_point": codes((8, 3), 3).astype(np.int8),
        },
        said(8, format="int-quantized"),
    ),
    "MXFP4 of ModelOpt": ({U + "weight": nibbles(codes((8, 96), 4)), U + "weight_scale": exponents((8, 3))}, {}),
    "MXFP4 of GPT-OSS": (
        {U + "weight_blocks": codes((8, 3, 16), 8).astype(np.uint8), U + "weight_scales": exponents((8, 3))},
        {},
    ),
    "MXFP4": ({U + "weight_packed": nibbles(codes((8, 96), 4)), U + "weight_scale": exponents((8, 3))}, {}),
    "MXFP8": (
        {U + "weight": scales((8, 96)).astype(ml_dtypes.float8_e4m3fn), U + "weight_scale": exponents((8, 3))},
        {},
    ),
}


def filled(value, byte):
    """An array of the same shape and dtype, every byte of it this one."""
    return np.full(value.nbytes, byte, np.uint8).view(value.dtype).reshape(value.shape)


def wrong(tensors):
    """The tensors with one thing wrong, and what it is."""
    for name, value in tensors.items():
        end = name.removeprefix(U)
        yield f"without {end}", {other: value for other, value in tensors.items() if other != name}
        yield f"{end} of another rank", tensors | {name: value.reshape(1, *value.shape)}
        yield f"{end} flat", tensors | {name: value.reshape(-1)}
        yield f"{end} empty", tensors | {name: value[:0] if value.ndim else value.reshape(1)[:0]}
        if value.ndim:
            yield f"{end} cut", tensors | {name: value[..., :-1]}
            yield f"{end} doubled", tensors | {name: np.concatenate([value, value])}
        for dtype in (np.float64, np.int64, np.uint8, np.int32, ml_dtypes.bfloat16):
            if value.dtype != dtype:
                yield f"{end} as {np.dtype(dtype).name}", tensors | {name: value.astype(dtype)}
        if value.dtype.kind in "iu":
            for bits in (0, 255):
                yield (
                    f"{end} of bytes {bits}",
                    tensors | {name: filled(value, bits)},
                )


@pytest.mark.parametrize("format", LAYERS)
@pytest.mark.filterwarnings("error")
def test_a_layer_with_one_thing_wrong_is_read_whole_or_refused(tmp_path, format):
    tensors, quantisation = LAYERS[format]
    config = {"quantization": quantisation} if format == "MLX" else {"quantization_config": quantisation}
    assert opened(tmp_path, tensors, **config).read_logical(U + "weight").ndim == 2
    refused = []
    with np.errstate(all="ignore"):
        made = list(wrong(tensors))
    for number, (what, changed) in enumerate(made):
        folder = tmp_path / str(number)
        folder.mkdir()
        tracemalloc.start()
        try:
            store = opened(folder, {name: np.ascontiguousarray(a) for name, a in changed.items()}, **config)
            checkpoint.find(folder)
            for name in store.logical:
                assert store.read_logical(name).shape == store.logical[name].shape, what
        except CheckpointError as error:
            refused.append(str(error))
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 2**23, (what, peak)
    assert len(refused) > len(made) // 4
    assert all("\n" not in line and len(line) < 1000 for line in refused)


@pytest.mark.parametrize("format", LAYERS)
def test_a_file_cut_off_is_refused(tmp_path, format):
    tensors, quantisation = LAYERS[format]
    opened(tmp_path, tensors, quantisation)
    data = (tmp_path / "model.safetensors").read_bytes()
    for length in (len(data) - 1, len(data) // 2, 100):
        (tmp_path / "model.safetensors").write_bytes(data[:length])
        with pytest.raises(CheckpointError):
            checkpoint.find(tmp_path)


@pytest.mark.parametrize("row", FORMATS, ids=lambda row: f"{row.name} {row.values}")
def test_every_row_has_a_layer_here(row):
    """A new format brings a layer into LAYERS, so that what is wrong with one is tried."""

    def fits(tensors):
        for name, value in tensors.items():
            layer = name.removesuffix(row.values)
            if value.dtype.name in row.dtypes and all(layer + end in tensors for end in row.beside):
                yield layer != name or not row.values

    assert any(any(fits(tensors)) for tensors, _ in LAYERS.values())
