"""Quantised checkpoints: decoded as their formats define it, value by value, or refused by name."""

import json
import math

import numpy as np
import pytest

from portable_ffn import checkpoint
from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.save import save_tensors
from portable_ffn.checkpoint._tensors.store import open_store

ml_dtypes = pytest.importorskip("ml_dtypes", reason="float8 in NumPy is its")
torch = pytest.importorskip("torch", reason="the real writer of float8")
save_torch = pytest.importorskip("safetensors.torch", reason="the format's own library writes float8").save_file

DEEPSEEK = {"quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}}


def opened(directory, tensors, config=None):
    """A store of these tensors, written by torch where they are its own."""
    if config is not None:
        (directory / "config.json").write_text(json.dumps(config))
    if all(isinstance(value, torch.Tensor) for value in tensors.values()):
        save_torch(tensors, directory / "model.safetensors")
    else:
        save_tensors(directory / "model.safetensors", tensors)
    return open_store(directory)


def float8(shape, kind=torch.float8_e4m3fn, seed=0):
    """Random numbers in eight bits."""
    return (torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 20).to(kind)


def e4m3(byte):
    """One value of E4M3 from its bits (Micikevicius et al. 2022, table 1: bias 7, no infinities, one NaN)."""
    sign, exponent, mantissa = -1 if byte >> 7 else 1, byte >> 3 & 15, byte & 7
    if exponent == 15 and mantissa == 7:
        return math.nan
    return sign * (math.ldexp(8 + mantissa, exponent - 10) if exponent else math.ldexp(mantissa, -9))


def e5m2(byte):
    """One value of E5M2 from its bits (Micikevicius et al. 2022, table 1: bias 15, as IEEE)."""
    sign, exponent, mantissa = -1 if byte >> 7 else 1, byte >> 2 & 31, byte & 3
    if exponent == 31:
        return math.nan if mantissa else sign * math.inf
    return sign * (math.ldexp(4 + mantissa, exponent - 17) if exponent else math.ldexp(mantissa, -16))


def times(bits, scale_of, decode=e4m3):
    """Each value times its scale in float64, rounded to float32 once."""
    values = [decode(int(byte)) * scale_of(place) for place, byte in np.ndenumerate(bits)]
    with np.errstate(over="ignore"):
        return np.array(values, np.float64).reshape(bits.shape).astype(np.float32)


# Eight-bit floats


@pytest.mark.parametrize("shape", [(256, 384), (300, 200), (1, 129), (128, 128), (7, 5)])
@pytest.mark.parametrize("scale_dtype", [torch.float32, torch.bfloat16, torch.float8_e8m0fnu])
def test_deepseek_blocks_of_128_by_128(tmp_path, shape, scale_dtype):
    weight = float8(shape)
    grid = tuple(-(-n // 128) for n in shape)
    scale = (torch.rand(grid, generator=torch.Generator().manual_seed(1)) + 0.1).to(scale_dtype)
    name = "model.layers.0.mlp.up_proj.weight"
    store = opened(tmp_path, {name: weight, name + "_scale_inv": scale}, DEEPSEEK)
    factors = scale.to(torch.float64).numpy()
    expected = times(weight.view(torch.uint8).numpy(), lambda at: factors[at[0] // 128, at[1] // 128])
    got = store.read_logical(name)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, expected)
    assert set(store.logical) == {name}
    assert store.logical[name][:3] == (name, "float32", shape)
    assert store.tensors[name].dtype == "float8_e4m3fn"
    assert store.sources(name) == (name, name + "_scale_inv")
    assert dict(store.formats) == {name: "FP8, blocks of 128 x 128"}
    assert store.read(name).dtype == ml_dtypes.float8_e4m3fn


def test_every_code_of_both_eight_bit_floats(tmp_path):
    codes = torch.arange(256, dtype=torch.uint8).reshape(2, 128)
    tensors = {"a.weight": codes.view(torch.float8_e4m3fn), "b.weight": codes.clone().view(torch.float8_e5m2)}
    scales = {name + "_scale": torch.tensor(3.0) for name in tensors}
    store = opened(tmp_path, tensors | scales)
    for name, decode in (("a.weight", e4m3), ("b.weight", e5m2)):
        expected = times(codes.numpy(), lambda at: 3.0, decode)
        np.testing.assert_array_equal(store.read_logical(name), expected)


@pytest.mark.parametrize("scale_shape", [(), (1,), (1, 1)])
def test_one_scale_for_the_whole_weight(tmp_path, scale_shape):
    weight = float8((6, 10))
    tensors = {"a.weight": weight, "a.weight_scale": torch.full(scale_shape, 0.3), "a.input_scale": torch.tensor(2.0)}
    store = opened(tmp_path, tensors, {"quantization_config": {"quant_method": "compressed-tensors"}})
    factor = float(np.float32(0.3))
    np.testing.assert_array_equal(
        store.read_logical("a.weight"), times(weight.view(torch.uint8).numpy(), lambda at: factor)
    )
    assert set(store.logical) == {"a.weight"}
    assert store.sources("a.weight") == ("a.weight", "a.weight_scale")


@pytest.mark.parametrize("scale_shape", [(6, 1), (6,)])
def test_one_scale_a_row_square_weights_too(tmp_path, scale_shape):
    weight, scale = float8((6, 6)), torch.arange(1, 7, dtype=torch.bfloat16)
    store = opened(tmp_path, {"a.weight": weight, "a.weight_scale": scale.reshape(scale_shape)})
    expected = times(weight.view(torch.uint8).numpy(), lambda at: at[0] + 1.0)
    np.testing.assert_array_equal(store.read_logical("a.weight"), expected)


def test_stacked_experts_by_blocks_and_one_of_them(tmp_path):
    weight, scale = float8((3, 40, 24)), torch.rand((3, 3, 2), generator=torch.Generator().manual_seed(5))
    config = {"text_config": {"quantization_config": {"quant_method": "fp8", "weight_block_size": [16, 16]}}}
    name = "model.layers.0.mlp.experts.gate_up_proj"
    store = opened(tmp_path, {name: weight, name + "_scale_inv": scale}, config)
    factors = scale.double().numpy()
    expected = times(weight.view(torch.uint8).numpy(), lambda at: factors[at[0], at[1] // 16, at[2] // 16])
    np.testing.assert_array_equal(store.read_logical(name), expected)
    for row in (0, 1, 2, -1):
        np.testing.assert_array_equal(store.read_logical(name, row=row), expected[row])
    with pytest.raises(IndexError, match="out of range"):
        store.read_logical(name, row=3)


@pytest.mark.parametrize("scale_shape", [(), (1,), (1, 1, 1), (3,), (3, 1, 1), (3, 4), (3, 4, 1)])
def test_stacked_experts_with_a_scale_an_expert_or_a_row(tmp_path, scale_shape):
    weight = float8((3, 4, 8))
    scale = torch.rand(scale_shape, generator=torch.Generator().manual_seed(6))
    store = opened(tmp_path, {"experts.up": weight, "experts.up_scale": scale})
    factors = np.broadcast_to(scale.double().numpy().reshape(-1, scale.numel() // 3 or 1), (3, 4))
    expected = times(weight.view(torch.uint8).numpy(), lambda at: factors[at[0], at[1]])
    np.testing.assert_array_equal(store.read_logical("experts.up"), expected)
    np.testing.assert_array_equal(store.read_logical("experts.up", row=2), expected[2])


def test_compressed_tensors_give_their_blocks_by_groups(tmp_path):
    groups = {"group_0": {"weights": {"num_bits": 8, "type": "float", "block_structure": [2, 4]}}}
    weight, scale = float8((4, 8)), torch.tensor([[1.0, 2.0], [4.0, 8.0]])
    config = {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": groups}}
    store = opened(tmp_path, {"a.weight": weight, "a.weight_scale": scale}, config)
    expected = times(weight.view(torch.uint8).numpy(), lambda at: scale[at[0] // 2, at[1] // 4].item())
    np.testing.assert_array_equal(store.read_logical("a.weight"), expected)


def test_a_layer_left_in_bfloat16_is_read_as_it_is(tmp_path):
    plain = torch.randn(4, 4).to(torch.bfloat16)
    store = opened(tmp_path, {"a.weight": plain, "b.weight": float8((4, 4)), "b.weight_scale": torch.ones(1)}, DEEPSEEK)
    assert store.read_logical("a.weight").dtype == ml_dtypes.bfloat16
    assert store.logical["a.weight"] == store.tensors["a.weight"]
    np.testing.assert_array_equal(store.read_logical("a.weight").astype(np.float32), plain.float().numpy())
    np.testing.assert_array_equal(store.read_logical("a.weight", row=1), store.read_logical("a.weight")[1])


@pytest.mark.parametrize(
    ("beside", "config", "words"),
    [
        ({}, DEEPSEEK, "float8_e4m3fn without one scale"),
        ({}, None, "float8_e4m3fn without one scale"),
        ({"_scale": (), "_scale_inv": ()}, None, "float8_e4m3fn without one scale"),
        ({"_scale": (), "_scale_2": ()}, None, "float8_e4m3fn without one scale"),
        ({"_scale_inv": (2, 2)}, DEEPSEEK, r"shape \(2, 2\), must be one scale.*128 x 128"),
        ({"_scale": (2, 2)}, None, r"must be one scale.*unknown"),
        ({"_scale": (3, 3, 3)}, DEEPSEEK, "must be one scale"),
        ({"_scale": (10,)}, None, "must be one scale"),
        (
            {"_scale_inv": (2, 2)},
            {
                "text_config": {"quantization_config": {"weight_block_size": [3, 6]}},
                "quantization_config": {"weight_block_size": [3, 5]},
            },
            "3 x 5, 3 x 6",
        ),
    ],
)
def test_scales_that_do_not_settle_the_values_are_refused_when_read(tmp_path, beside, config, words):
    tensors = {"a.weight": float8((6, 10))}
    tensors |= {"a.weight" + end: torch.ones(shape) for end, shape in beside.items()}
    store = opened(tmp_path, tensors, config)
    assert "a.weight" in store.logical
    with pytest.raises(CheckpointError, match=words):
        store.read_logical("a.weight")


@pytest.mark.parametrize("size", [[128], [0, 128], [-1, 1], ["128", 128], 128, [128, True], [2**31, 1], {}])
def test_a_block_of_no_size_is_refused(tmp_path, size):
    with pytest.raises(CheckpointError, match="block's size must be two whole numbers"):
        opened(tmp_path, {"a.weight": float8((2, 2))}, {"quantization_config": {"weight_block_size": size}})


# MXFP4


def microscaling(blocks, scales):
    """One row by the OCP MX specification v1.0: E8M0 scale (5.4.1), E2M1 elements (5.3.3), one by one."""
    row = []
    for block, scale in zip(blocks, scales, strict=True):
        factor = math.nan if scale == 255 else 2.0 ** (int(scale) - 127)
        for byte in block:
            for code in (int(byte) & 15, int(byte) >> 4):
                sign, exponent, mantissa = -1 if code >> 3 else 1, code >> 1 & 3, code & 1
                magnitude = (2 + mantissa) * 2.0 ** (exponent - 2) if exponent else mantissa * 0.5
                row.append(sign * magnitude * factor)
    return row


def test_mxfp4_of_gpt_oss_against_the_specification(tmp_path):
    rng = np.random.default_rng(3)
    blocks = rng.integers(0, 256, (2, 6, 3, 16), dtype=np.uint8)
    scales = rng.integers(100, 150, (2, 6, 3), dtype=np.uint8)
    scales[0, 0] = 0, 254, 255
    layer = "model.layers.0.mlp.experts."
    tensors = {layer + "gate_up_proj_blocks": blocks, layer + "gate_up_proj_scales": scales}
    tensors[layer + "gate_up_proj_bias"] = rng.standard_normal((2, 6)).astype(np.float32)
    store = opened(tmp_path, tensors, {"quantization_config": {"quant_method": "mxfp4"}})
    name = layer + "gate_up_proj"
    rows = [[microscaling(b, s) for b, s in zip(*expert, strict=True)] for expert in zip(blocks, scales, strict=True)]
    with np.errstate(over="ignore"):
        expected = np.array(rows).astype(np.float32).transpose(0, 2, 1)
    assert set(store.logical) == {name, layer + "gate_up_proj_bias"}
    assert store.logical[name].shape == (2, 96, 6) == expected.shape
    assert store.logical[name].dtype == "float32"
    assert store.sources(name) == (name + "_blocks", name + "_scales")
    np.testing.assert_array_equal(store.read_logical(name), expected)
    np.testing.assert_array_equal(np.signbit(store.read_logical(name)), np.signbit(expected))
    np.testing.assert_array_equal(store.read_logical(name, row=1), expected[1])


def test_mxfp4_of_a_single_matrix_stays_out_by_in(tmp_path):
    rng = np.random.default_rng(4)
    blocks, scales = rng.integers(0, 256, (6, 2, 16), dtype=np.uint8), np.full((6, 2), 126, np.uint8)
    store = opened(tmp_path, {"up_blocks": blocks, "up_scales": scales})
    expected = np.array([microscaling(b, s) for b, s in zip(blocks, scales, strict=True)], np.float32)
    assert store.logical["up"].shape == (6, 64)
    np.testing.assert_array_equal(store.read_logical("up"), expected)
    np.testing.assert_array_equal(store.read_logical("up", row=2), expected[2])


def test_mxfp4_whose_parts_do_not_fit_is_refused(tmp_path):
    tensors = {"up_blocks": np.zeros((6, 2, 16), np.uint8), "up_scales": np.zeros((6, 3), np.uint8)}
    with pytest.raises(
        CheckpointError,
        match=r"'up' is MXFP4, and up_blocks and up_scales must have shapes \(..., n, 16\) and \(..., n\)",
    ):
        opened(tmp_path, tensors).read_logical("up")


# What is refused by name

I8, U8, I32, U32, F16, F32 = np.int8, np.uint8, np.int32, np.uint32, np.float16, np.float32

# The tensors of one layer of 64 inputs and 32 outputs as each tool writes them.
FORMATS = {
    "GPTQ": {"qweight": (I32, (8, 32)), "qzeros": (I32, (1, 4)), "scales": (F16, (1, 32)), "g_idx": (I32, (64,))},
    "AWQ or GPTQ": {"qweight": (I32, (64, 4)), "qzeros": (I32, (1, 4)), "scales": (F16, (1, 32))},
    "bitsandbytes 4-bit": {
        "weight": (U8, (1024, 1)),
        "weight.absmax": (U8, (32,)),
        "weight.quant_map": (F32, (16,)),
        "weight.nested_absmax": (F32, (1,)),
        "weight.nested_quant_map": (F32, (256,)),
        "weight.quant_state.bitsandbytes__nf4": (U8, (100,)),
    },
    "compressed-tensors": {
        "weight_packed": (I32, (32, 8)),
        "weight_scale": (F16, (32, 1)),
        "weight_shape": (np.int64, (2,)),
    },
    "EETQ": {"weight": (I8, (64, 32)), "weight_scales": (F16, (32,))},
    "MLX": {"weight": (U32, (32, 8)), "scales": (F16, (32, 1)), "biases": (F16, (32, 1))},
    "scaled integer": {"weight": (I8, (32, 64)), "weight_scale": (F32, (32, 1))},
    "quanto": {"weight._data": (I8, (32, 64)), "weight._scale": (F16, (32, 1))},
    "HQQ": {"W_q": (U8, (1024, 1)), "scale": (F16, (32, 1)), "zero": (F16, (32, 1))},
    "AQLM": {"codes": (I8, (32, 8, 1)), "codebooks": (F16, (1, 256, 1, 8)), "scales": (F16, (32, 1, 1, 1))},
    "QuIP#": {"Qidxs": (np.int64, (32, 8))},
    "EXL2": {"q_weight": (I32, (8, 32)), "q_scale": (I32, (1, 4)), "q_groups": (np.int16, (2,))},
    "EXL3": {"trellis": (np.int16, (4, 2, 64)), "suh": (F16, (64,)), "svh": (F16, (32,))},
    "VPTQ": {"indices": (np.uint16, (1, 8, 32)), "centroids": (F16, (1, 2048))},
    "integer": {"weight": (I8, (32, 64))},
}


NOT_READ = "quantised as {} .*which is not read; dequantise"
# Of zeros alone, these contradict themselves, or need a config.
WORDS = {
    "GPTQ": "GPTQ, and the config must say which tool wrote it",
    "AWQ or GPTQ": "AWQ or GPTQ, and the config must say which tool wrote it",
    "bitsandbytes 4-bit": "bitsandbytes 4-bit, and .* must be JSON",
    "compressed-tensors": "compressed-tensors, and .*weight_packed must have shape",
    "MLX": "MLX, and bits and group_size must stand under quantization in the config",
}


@pytest.mark.parametrize("format", FORMATS)
def test_a_format_that_is_not_read_is_named_when_it_is_read(tmp_path, format):
    layer = "model.layers.0.mlp.up_proj."
    tensors = {layer + end: np.zeros(shape, kind) for end, (kind, shape) in FORMATS[format].items()}
    tensors["model.norm.weight"] = np.ones(64, F32)
    store = opened(tmp_path, tensors)
    assert dict(store.formats) == {layer + "weight": format}
    assert store.logical[layer + "weight"].dtype == format
    with pytest.raises(CheckpointError, match=f"'{layer}weight' is {WORDS.get(format, NOT_READ)}".format(format)):
        store.read_logical(layer + "weight")
    np.testing.assert_array_equal(store.read_logical("model.norm.weight"), np.ones(64, F32))


@pytest.mark.parametrize("format", ["GPTQ", "AWQ or GPTQ", "scaled integer"])
def test_the_shape_is_told_where_the_headers_tell_it(tmp_path, format):
    tensors = {"up." + end: np.zeros(shape, kind) for end, (kind, shape) in FORMATS[format].items()}
    store = opened(tmp_path, tensors)
    assert set(store.logical) == {"up.weight"}
    assert store.logical["up.weight"].shape == (32, 64)


@pytest.mark.parametrize(
    ("format", "method", "expected"),
    [
        ("GPTQ", {"quant_method": "new"}, ("new", (32, 64))),
        ("AWQ or GPTQ", {"quant_method": "new"}, ("new", (32, 64))),
        ("scaled integer", {"quant_method": "quark"}, ("scaled integer of quark", (32, 64))),
        ("integer", {"quant_method": "new"}, ("integer of new", (32, 64))),
    ],
)
def test_the_config_names_the_tool(tmp_path, format, method, expected):
    tensors = {"up." + end: np.zeros(shape, kind) for end, (kind, shape) in FORMATS[format].items()}
    store = opened(tmp_path, tensors, {"quantization_config": method})
    assert store.logical["up.weight"][1:3] == expected
    with pytest.raises(CheckpointError, match=f"is quantised as {expected[0]} .*not read"):
        store.read_logical("up.weight")


def test_a_quantised_weight_beside_a_plain_one_of_its_name_is_refused(tmp_path):
    tensors = {"up." + end: np.zeros(shape, kind) for end, (kind, shape) in FORMATS["GPTQ"].items()}
    with pytest.raises(CheckpointError, match=r"both 'up.qweight' \(GPTQ\) and 'up.weight'"):
        opened(tmp_path, tensors | {"up.weight": np.zeros((32, 64), F32)})


def test_integers_that_are_no_weights_are_read_as_they_are(tmp_path):
    tensors = {"position_ids": np.arange(4), "norm.num_batches_tracked": np.array(3), "mask_blocks": np.zeros(3, U8)}
    store = opened(tmp_path, tensors)
    assert dict(store.formats) == {}
    for name, value in tensors.items():
        np.testing.assert_array_equal(store.read_logical(name), value)


@pytest.mark.parametrize("name", ["float4_e2m1fn", "float6_e2m3fn"])
def test_dtypes_below_a_byte_are_opened_and_refused_when_read(tmp_path, name):
    disk, nbytes = {"float4_e2m1fn": ("F4", 4), "float6_e2m3fn": ("F6_E2M3", 6)}[name]
    text = json.dumps({"a": {"dtype": disk, "shape": [8], "data_offsets": [0, nbytes]}}).encode()
    (tmp_path / "x.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(nbytes))
    store = open_store(tmp_path / "x.safetensors")
    assert (store.tensors["a"].dtype, store.tensors["a"].shape) == (name, (8,))
    for read in (store.read, store.read_logical):
        with pytest.raises(CheckpointError, match=f"{name} packs several values into a byte"):
            read("a")


@pytest.mark.parametrize("dtype", ["int8", "bool", "complex64"])
@pytest.mark.parametrize("name", ["mlp.down_proj.weight", "mlp.gate_proj.weight"])
def test_a_weight_that_is_not_read_is_a_problem_when_it_is_found(tmp_path, name, dtype):
    """One layer of three; its neighbours are as they were, and the file's data are not looked at."""
    shapes = {"gate_proj": (6, 4), "up_proj": (6, 4), "down_proj": (4, 6)}
    tensors = {
        f"model.layers.{n}.mlp.{part}.weight": np.ones(shape, np.float32)
        for n in range(3)
        for part, shape in shapes.items()
    }
    tensors[f"model.layers.1.{name}"] = tensors[f"model.layers.1.{name}"].astype(dtype)
    save_tensors(tmp_path / "model.safetensors", tensors)
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_act": "silu"}')
    whole, lost, other = checkpoint.find(tmp_path)
    assert whole.problem is None
    assert other.problem is None
    assert name in str(lost.problem)
    with pytest.raises(CheckpointError, match="integer" if dtype == "int8" else dtype):
        checkpoint.load(tmp_path, 1)
