"""Integer formats, value by value: codes packed by hand, decoded as each format's own words define it."""

import json

import numpy as np
import pytest

from portable_ffn.checkpoint._errors import CheckpointError
from tests.checkpoint.packed import codes, opened, same, scales, words

U = "model.layers.0.mlp.up_proj."
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def gptq(bits, inputs, out, groups, less, order=None):
    """The tensors of a GPTQ layer, and its weight."""
    q, zeros, factors = codes((out, inputs), bits), codes((groups, out), bits), scales((groups, out))
    group = np.arange(inputs) * groups // inputs if order is None else order
    stored = words(zeros, bits)
    if less and 32 % bits == 0:
        # One less in whole words, so that a zero of 0 borrows from its neighbour.
        stored = (stored.view(np.uint32) - np.uint32(sum(1 << i for i in range(0, 32, bits)))).view(np.int32)
    elif less:
        stored = words((zeros - 1) % (1 << bits), bits)
    tensors = {U + "qweight": words(q, bits).T, U + "qzeros": stored, U + "scales": factors}
    if order is not None:
        tensors[U + "g_idx"] = order.astype(np.int32)
    return tensors, (q - zeros.T[:, group]) * factors.T[:, group].astype(np.float64)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("version", ["gptq", "gptq_v2", None])
@pytest.mark.parametrize("ordered", [False, True])
def test_gptq(tmp_path, bits, version, ordered):
    order = np.random.default_rng(bits).permutation(np.arange(96) // 32) if ordered else None
    tensors, expected = gptq(bits, 96, 64, 3, version != "gptq_v2", order)
    said = {"quant_method": "gptq", "bits": bits, "group_size": 32}
    store = opened(tmp_path, tensors, said if version is None else {**said, "checkpoint_format": version})
    same(store, U + "weight", expected)
    assert store.formats == {U + "weight": f"GPTQ {bits}-bit, groups of 32"}
    assert set(store.logical) == {U + "weight"}
    assert set(store.sources(U + "weight")) == set(tensors)


@pytest.mark.parametrize(("packing", "less"), [("auto_round", 0), ("auto_round:auto_gptq", 1), ("auto_round:gptq", 1)])
def test_auto_round(tmp_path, packing, less):
    tensors, expected = gptq(4, 64, 32, 2, less)
    said = {"quant_method": "auto-round", "bits": 4, "group_size": 32, "packing_format": packing}
    same(opened(tmp_path, tensors, said), U + "weight", expected)


def test_the_bits_of_a_layer_are_those_of_its_own_tensors(tmp_path):
    tensors, expected = gptq(8, 64, 32, 1, 1)
    same(opened(tmp_path, tensors, {"quant_method": "gptq", "bits": 4, "group_size": -1}), U + "weight", expected)


def test_settings_of_gptq_in_a_file_of_their_own(tmp_path):
    tensors, expected = gptq(4, 64, 32, 2, 1, np.arange(64) // 32)
    (tmp_path / "quantize_config.json").write_text(json.dumps({"bits": 4, "group_size": 32, "desc_act": False}))
    same(opened(tmp_path, tensors), U + "weight", expected)


@pytest.mark.parametrize("zero_name", ["awq", "auto-round"])
def test_awq(tmp_path, zero_name):
    q, zeros, factors = codes((64, 40), 4), codes((2, 40), 4), scales((2, 40))
    group = np.arange(64) // 32

    def packed(rows):
        return words(rows.reshape(len(rows), -1, 8)[..., AWQ_ORDER].reshape(len(rows), -1), 4)

    tensors = {U + "qweight": packed(q), U + "qzeros": packed(zeros), U + "scales": factors}
    said = {"quant_method": zero_name, "bits": 4, "group_size": 32, "version": "GEMM"}
    if zero_name != "awq":
        said = {"quant_method": zero_name, "bits": 4, "group_size": 32, "packing_format": "auto_round:auto_awq"}
    store = opened(tmp_path, tensors, said)
    same(store, U + "weight", ((q - zeros[group]) * factors[group].astype(np.float64)).T)


@pytest.mark.parametrize(
    ("said", "beside", "words"),
    [
        ({"quant_method": "gptq", "checkpoint_format": "marlin"}, {}, "checkpoint_format 'marlin' is not read"),
        ({"quant_method": "gptq", "bits": 4}, {"scales": np.ones((3, 32), np.float16)}, "qzeros must have shape"),
        ({"quant_method": "gptq", "bits": 4}, {"scales": np.ones((2, 31), np.float16)}, "scales must have shape"),
        ({"quant_method": "gptq", "bits": 4}, {"scales": np.ones((2, 32), np.int32)}, "scales must be float16"),
        ({"quant_method": "gptq", "bits": 4}, {"qzeros": np.ones((2, 9), np.int32)}, "qzeros must have shape"),
        (
            {"quant_method": "gptq", "bits": 4},
            {"g_idx": np.full(64, 2, np.int32)},
            "g_idx must name groups from 0 to 1",
        ),
        ({"quant_method": "gptq", "bits": 4}, {"g_idx": np.full(64, -1, np.int32)}, "g_idx must name groups"),
        ({"quant_method": "gptq", "bits": 4}, {"g_idx": np.zeros(80, np.int32)}, "qweight must have 10 rows, has 8"),
        ({"quant_method": "awq", "version": "gemv"}, {}, "version 'gemv' is not read"),
        ({"quant_method": "awq"}, {}, "AWQ, and .*qweight must have shape"),
        ({"quant_method": "auto-round", "packing_format": "x"}, {}, "packing_format 'x' is not read"),
    ],
)
def test_a_layer_that_contradicts_its_format_is_refused_and_the_others_read(tmp_path, said, beside, words):
    tensors, _ = gptq(4, 64, 32, 2, 1)
    tensors |= {U + end: value for end, value in beside.items()} | {"model.norm.weight": np.ones(3, np.float32)}
    store = opened(tmp_path, tensors, said)
    with pytest.raises(CheckpointError, match=words):
        store.read_logical(U + "weight")
    np.testing.assert_array_equal(store.read_logical("model.norm.weight"), np.ones(3))


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize("experts", [0, 3])
def test_mlx(tmp_path, bits, experts):
    lead = (experts, 8) if experts else (8,)
    q, factors, bias = codes((*lead, 96), bits), scales((*lead, 3)), scales((*lead, 3))
    packed = words(q.reshape(-1, 96), bits, np.uint32).reshape(*lead, -1)
    tensors = {U + "weight": packed, U + "scales": factors, U + "biases": bias}
    store = opened(
        tmp_path, tensors, quantization={"group_size": 64, "bits": 4, U[:-1]: {"group_size": 32, "bits": bits}}
    )
    group = np.arange(96) // 32
    expected = q * factors[..., group].astype(np.float64) + bias[..., group]
    same(store, U + "weight", expected)
    assert store.formats == {U + "weight": f"MLX {bits}-bit, groups of 32"}
    if experts:
        np.testing.assert_array_equal(store.read_logical(U + "weight", 1), store.read_logical(U + "weight")[1])


def compressed(bits, out, inputs, groups, zeros=True, order=None):
    """The tensors of a layer of compressed-tensors, and its weight."""
    q, zero, factors = codes((out, inputs), bits), codes((out, groups), bits), scales((out, groups))
    group = np.arange(inputs) * groups // inputs if order is None else order
    tensors = {
        U + "weight_packed": words(q, bits),
        U + "weight_scale": factors,
        U + "weight_shape": np.array([out, inputs]),
    }
    if zeros:
        tensors[U + "weight_zero_point"] = words(zero.T, bits).T
    else:
        zero = np.full((out, groups), 1 << (bits - 1))
    if order is not None:
        tensors[U + "weight_g_idx"] = order.astype(np.int32)
    return tensors, (q - zero[:, group]) * factors[:, group].astype(np.float64)


def said(bits, **more):
    """The config of a layer of compressed-tensors."""
    weights = {"num_bits": bits, "type": "int"}
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups, **more}


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("out", "inputs", "groups"), [(50, 70, 1), (32, 96, 3)])
def test_compressed_tensors(tmp_path, bits, zeros, out, inputs, groups):
    tensors, expected = compressed(bits, out, inputs, groups, zeros)
    store = opened(tmp_path, tensors, said(bits))
    same(store, U + "weight", expected)
    assert set(store.logical) == {U + "weight"}


@pytest.mark.parametrize("unset", [False, True])
def test_compressed_tensors_in_the_order_of_activations(tmp_path, unset):
    order = np.random.default_rng(0).permutation(np.arange(96) // 32)
    tensors, expected = compressed(4, 32, 96, 3, order=None if unset else order)
    if unset:
        tensors[U + "weight_g_idx"] = np.full(96, -1, np.int32)
    same(opened(tmp_path, tensors, said(4)), U + "weight", expected)


def test_compressed_tensors_of_two_groups_by_name(tmp_path):
    tensors, expected = compressed(8, 32, 96, 3)
    config = said(4)
    config["config_groups"]["group_1"] = {"targets": ["re:.*up_proj$"], "weights": {"num_bits": 8, "type": "int"}}
    same(opened(tmp_path, tensors, config), U + "weight", expected)


def test_words_that_begin_anew(tmp_path):
    """Older writers put ten codes of three bits into a word, and left two bits over."""
    q, factors = codes((8, 160), 3), scales((8, 1))
    packed = np.concatenate([words(part, 3) for part in np.split(q, 16, axis=1)], axis=1)
    shape = np.array([8, 160])
    tensors = {U + "weight_packed": packed, U + "weight_scale": factors, U + "weight_shape": shape}
    same(opened(tmp_path, tensors, said(3)), U + "weight", (q - 4) * factors.astype(np.float64))


@pytest.mark.parametrize("shape", [(8, 1), (8,), (1,), (8, 3)])
@pytest.mark.parametrize("zeros", [False, True])
def test_integers_of_a_byte_each(tmp_path, shape, zeros):
    q, factors = codes((8, 96), 8).astype(np.int8), scales(shape)
    zero = codes(shape, 3).astype(np.int8)
    tensors = {U + "weight": q, U + "weight_scale": factors, **({U + "weight_zero_point": zero} if zeros else {})}
    count = shape[1] if len(shape) == 2 else 1
    spread = [
        np.broadcast_to(a.reshape(-1, count), (8, count))[:, np.arange(96) * count // 96] for a in (factors, zero)
    ]
    expected = (q - (spread[1].astype(int) if zeros else 0)) * spread[0].astype(np.float64)
    same(opened(tmp_path, tensors, said(8, format="int-quantized")), U + "weight", expected)


def test_transforms_at_run_time_are_refused(tmp_path):
    tensors, _ = compressed(4, 32, 96, 3)
    transforms = {
        "config_groups": {"R4": {"type": "hadamard", "apply": [{"targets": ["re:.*up"], "location": "input"}]}}
    }
    store = opened(tmp_path, tensors, said(4, transform_config=transforms))
    with pytest.raises(CheckpointError, match="compressed-tensors with transforms at run time"):
        store.read_logical(U + "weight")
