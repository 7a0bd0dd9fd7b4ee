"""Quantised weights, recognised by their tensors' names and dtypes, and folded into one logical tensor each.

What has a decoder in `_dequantise` is read; every other format is named, and refused when it is read.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files import TensorInfo


class Recipe(NamedTuple):
    """How a logical tensor comes from those on disk: the values first, then the scales."""

    format: str
    sources: tuple[str, ...]
    blocks: frozenset[tuple[int, int]] = frozenset()


class _Refused(NamedTuple):
    """A format by the endings of its names: its values, what must stand beside them, what else may."""

    format: str
    values: str
    beside: tuple[str, ...] = ()
    more: tuple[str, ...] = ()


_BNB: Final = (".weight.quant_map", ".weight.nested_absmax", ".weight.nested_quant_map")
_NF4, _FP4 = (f".weight.quant_state.bitsandbytes__{kind}" for kind in ("nf4", "fp4"))

# Each ending follows the layer's name; the values are integers. The first row that fits counts.
_REFUSED: Final = (
    _Refused("GPTQ", ".qweight", (".qzeros", ".scales", ".g_idx")),
    _Refused("AWQ", ".qweight", (".qzeros", ".scales")),
    _Refused("GPTQ", ".qweight", (".scales",), (".g_idx",)),
    _Refused("bitsandbytes nf4", ".weight", (".weight.absmax", _NF4), _BNB),
    _Refused("bitsandbytes fp4", ".weight", (".weight.absmax", _FP4), _BNB),
    _Refused("bitsandbytes int8", ".weight", (".SCB",), (".weight_format",)),
    _Refused("NVFP4", ".weight", (".weight_scale", ".weight_scale_2"), (".input_scale",)),
    _Refused("NVFP4", ".weight_packed", (".weight_scale", ".weight_global_scale"), (".input_global_scale",)),
    _Refused(
        "compressed-tensors",
        ".weight_packed",
        (".weight_scale",),
        (".weight_shape", ".weight_zero_point", ".weight_g_idx", ".input_scale", ".input_zero_point"),
    ),
    _Refused("EETQ", ".weight", (".weight_scales",)),
    _Refused("MLX quantised", ".weight", (".scales",), (".biases",)),
    _Refused(
        "scaled integer",
        ".weight",
        (".weight_scale",),
        (".weight_zero_point", ".input_scale", ".input_zero_point"),
    ),
    _Refused("quanto", ".weight._data", (".weight._scale",), (".weight._shift", ".input_scale", ".output_scale")),
    _Refused("HQQ", ".W_q", (), (".scale", ".zero", ".meta")),
    _Refused("AQLM", ".codes", (".codebooks",), (".scales",)),
    _Refused("QuIP#", ".Qidxs"),
    _Refused("EXL2", ".q_weight", (".q_scale",)),
    _Refused("EXL3", ".trellis"),
    _Refused("VPTQ", ".indices", (".centroids",)),
    _Refused("integer", ".weight"),
    _Refused("integer", ".kernel"),
)

_INTEGERS: Final = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
# What writers of FP8 store beside a weight for its activations; it doesn't change the weight.
_ACTIVATION_SCALES: Final = (".input_scale", ".input_scale_ub", ".activation_scale", ".output_scale")


def fold(
    tensors: Mapping[str, TensorInfo], config: Mapping[str, Any]
) -> tuple[dict[str, TensorInfo], dict[str, Recipe]]:
    """The logical tensors, and the recipes of those that are not on disk as they are."""
    blocks = _block_sizes(config)
    logical = dict(tensors)
    recipes: dict[str, Recipe] = {}
    for name, info in tensors.items():
        if info.dtype == "float32" or name not in logical:
            continue
        for target, dtype, shape, recipe, hidden in _folded(info, tensors, blocks):
            if target in tensors and target != name:
                raise CheckpointError(f"{info.file}: has both {name!r} ({recipe.format}) and {target!r}; one must go")
            for other in hidden:
                logical.pop(other, None)
            logical.pop(name)
            logical[target] = info._replace(name=target, dtype=dtype, shape=shape)
            recipes[target] = recipe
    return logical, recipes


_Fold = tuple[str, str, tuple[int, ...], Recipe, tuple[str, ...]]


def _folded(info: TensorInfo, tensors: Mapping[str, TensorInfo], blocks: frozenset[tuple[int, int]]) -> Iterator[_Fold]:
    """At most one fold whose values the tensor holds: target, dtype, shape, recipe, names that vanish."""
    if info.dtype.startswith("float8") and info.dtype != "float8_e8m0fnu":
        yield _fold_fp8(info, tensors, blocks)
    elif info.dtype == "uint8" and info.name.endswith("_blocks") and info.name[:-6] + "scales" in tensors:
        yield _fold_mxfp4(info, tensors[info.name[:-6] + "scales"])
    elif info.dtype in _INTEGERS:
        for row in _REFUSED:
            layer = info.name.removesuffix(row.values)
            if layer != info.name and all(layer + end in tensors for end in row.beside):
                beside = tuple(layer + end for end in row.beside)
                more = tuple(layer + end for end in row.more if layer + end in tensors)
                recipe = Recipe(row.format, (info.name, *beside))
                target = info.name if row.values == ".kernel" else layer + ".weight"
                yield target, row.format, _shape(info, row, layer, tensors), recipe, (*beside, *more)
                return


def _fold_fp8(info: TensorInfo, tensors: Mapping[str, TensorInfo], blocks: frozenset[tuple[int, int]]) -> _Fold:
    """An eight-bit float with its scale: "_scale_inv" (DeepSeek) and "_scale" (the rest) are both factors."""
    scales = [info.name + end for end in ("_scale_inv", "_scale") if info.name + end in tensors]
    if len(scales) != 1 or info.name + "_scale_2" in tensors:
        return info.name, info.dtype, info.shape, Recipe(f"{info.dtype} without one scale", (info.name,)), ()
    layer = info.name.removesuffix(".weight")
    hidden = [layer + end for end in _ACTIVATION_SCALES]
    # The name belongs to one scheme, with blocks of 128 x 128 by default (DeepSeek-V3; FineGrainedFP8Config
    # of transformers).
    if scales[0].endswith("_scale_inv"):
        blocks = blocks or frozenset({(128, 128)})
    return info.name, "float32", info.shape, Recipe("FP8", (info.name, *scales), blocks), (*scales, *hidden)


def _fold_mxfp4(blocks: TensorInfo, scales: TensorInfo) -> _Fold:
    """GPT-OSS: blocks (..., out, groups, 16 bytes), scales (..., out, groups)."""
    target = blocks.name.removesuffix("_blocks")
    if (
        scales.dtype != "uint8"
        or blocks.shape[-1:] != (16,)
        or blocks.shape[:-1] != scales.shape
        or len(scales.shape) < 2
    ):
        recipe = Recipe("MXFP4 whose blocks and scales don't fit", (blocks.name, scales.name))
        return target, recipe.format, blocks.shape, recipe, (scales.name,)
    *experts, out, groups = scales.shape
    # The weights that GPT-OSS stores without quantisation are (experts, in, out).
    shape = (*experts, groups * 32, out) if experts else (out, groups * 32)
    return target, "float32", shape, Recipe("MXFP4", (blocks.name, scales.name)), (scales.name,)


def _shape(info: TensorInfo, row: _Refused, layer: str, tensors: Mapping[str, TensorInfo]) -> tuple[int, ...]:
    """The shape (out, in) of a refused weight where other shapes tell it, else the one on disk."""
    if row.values == ".qweight" and len(info.shape) == 2:
        if row.format == "AWQ":
            return tensors[layer + ".scales"].shape[-1], info.shape[0]
        if layer + ".g_idx" in tensors:
            return info.shape[1], math.prod(tensors[layer + ".g_idx"].shape)
    return info.shape


def _block_sizes(config: Mapping[str, Any]) -> frozenset[tuple[int, int]]:
    """The sizes (rows, columns) of the blocks that share a scale, as quantization_config gives them."""
    found = set()
    for part in (config, *config.values()):
        quantisation = part.get("quantization_config") if isinstance(part, Mapping) else None
        if not isinstance(quantisation, Mapping):
            continue
        sizes = [quantisation.get("weight_block_size")]
        groups = quantisation.get("config_groups")
        for group in groups.values() if isinstance(groups, Mapping) else ():
            weights = group.get("weights") if isinstance(group, Mapping) else None
            sizes.append(weights.get("block_structure") if isinstance(weights, Mapping) else None)
        for size in sizes:
            if size is None:
                continue
            if not isinstance(size, list) or len(size) != 2 or not all(type(n) is int and 0 < n < 2**31 for n in size):
                raise CheckpointError(
                    f"quantization_config: a block's size must be two whole numbers, got {str(size)[:80]}"
                )
            found.add((size[0], size[1]))
    return frozenset(found)
