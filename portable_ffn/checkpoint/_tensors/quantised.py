"""Quantised weights, recognised by their tensors' names and dtypes, and folded into one logical tensor each.

What has a decoder in `dequantise` is read; every other format is named, and refused when it is read.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.tensor import Encoding, TensorInfo
from portable_ffn.checkpoint._tensors.unread import REFUSED, Refused

_INTEGERS: Final = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
# What writers of FP8 store beside a weight for its activations; it doesn't change the weight.
_ACTIVATION_SCALES: Final = (".input_scale", ".input_scale_ub", ".activation_scale", ".output_scale")


class _Scheme(NamedTuple):
    """What quantization_config says: the tool, its bits a weight, the sizes (rows, columns) of blocks of one scale."""

    method: str | None
    bits: int | None
    blocks: frozenset[tuple[int, int]]


class _Plan(NamedTuple):
    """A logical tensor, its recipe, and the names on disk that it hides."""

    info: TensorInfo
    encoding: Encoding
    hidden: tuple[str, ...]


def decode_plan(
    tensors: Mapping[str, TensorInfo], config: Mapping[str, Any]
) -> tuple[dict[str, TensorInfo], dict[str, Encoding]]:
    """The logical tensors, and the recipes of those that are not on disk as they are."""
    scheme = _read_scheme(config)
    logical = dict(tensors)
    encodings: dict[str, Encoding] = {}
    for name, info in tensors.items():
        if name not in logical:
            continue
        for new, encoding, hidden in _planned(info, tensors, scheme):
            if new.name in tensors and new.name != name:
                raise CheckpointError(
                    f"{info.file}: has both {name!r} ({encoding.format}) and {new.name!r}; one must go"
                )
            for other in (name, *hidden):
                logical.pop(other, None)
            logical[new.name] = new
            encodings[new.name] = encoding
    return logical, encodings


def _planned(info: TensorInfo, tensors: Mapping[str, TensorInfo], scheme: _Scheme) -> Iterator[_Plan]:
    """The fold, one at most, of which the tensor holds the values."""
    if info.dtype.startswith("float8") and info.dtype != "float8_e8m0fnu":
        yield _plan_fp8(info, tensors, scheme.blocks)
    elif info.dtype == "uint8" and info.name.endswith("_blocks") and info.name[:-6] + "scales" in tensors:
        yield _plan_mxfp4(info, tensors[info.name[:-6] + "scales"])
    elif info.dtype in _INTEGERS:
        for row in REFUSED:
            layer = info.name.removesuffix(row.values)
            if layer != info.name and all(layer + end in tensors for end in row.beside):
                yield _plan_refused(info, row, layer, tensors, scheme)
                return


def _plan_fp8(info: TensorInfo, tensors: Mapping[str, TensorInfo], blocks: frozenset[tuple[int, int]]) -> _Plan:
    """An eight-bit float with its scale: "_scale_inv" (DeepSeek) and "_scale" (the rest) are both factors."""
    scales = tuple(info.name + end for end in ("_scale_inv", "_scale") if info.name + end in tensors)
    if len(scales) != 1 or info.name + "_scale_2" in tensors:
        return _Plan(info, Encoding(f"{info.dtype} without one scale", (info.name,)), ())
    layer = info.name.removesuffix(".weight")
    # The name belongs to one scheme, whose blocks are 128 x 128 by default (DeepSeek-V3; FineGrainedFP8Config of
    # transformers).
    if scales[0].endswith("_scale_inv"):
        blocks = blocks or frozenset({(128, 128)})
    encoding = Encoding("FP8", (info.name, *scales), blocks)
    return _Plan(info._replace(dtype="float32"), encoding, (*scales, *(layer + end for end in _ACTIVATION_SCALES)))


def _plan_mxfp4(blocks: TensorInfo, scales: TensorInfo) -> _Plan:
    """GPT-OSS: blocks (..., out, groups, 16 bytes), scales (..., out, groups)."""
    target = blocks._replace(name=blocks.name.removesuffix("_blocks"))
    sources = (blocks.name, scales.name)
    if scales.dtype != "uint8" or blocks.shape != (*scales.shape, 16) or len(scales.shape) < 2:
        encoding = Encoding("MXFP4 whose blocks and scales don't fit", sources)
        return _Plan(target._replace(dtype=encoding.format), encoding, sources)
    *experts, out, groups = scales.shape
    # The weights that GPT-OSS stores without quantisation are (experts, in, out).
    shape = (*experts, groups * 32, out) if experts else (out, groups * 32)
    return _Plan(target._replace(dtype="float32", shape=shape), Encoding("MXFP4", sources), sources)


def _plan_refused(
    info: TensorInfo, row: Refused, layer: str, tensors: Mapping[str, TensorInfo], scheme: _Scheme
) -> _Plan:
    """A format that is named only; its shape is (out, in) where the shapes beside it tell that."""
    name = row.format
    # Several tools write these names; the config says which it was.
    if scheme.method and row.values == ".qweight":
        name = {"gptq": "GPTQ", "awq": "AWQ"}.get(scheme.method, scheme.method)
    elif scheme.method and "integer" in name:
        name = f"{name} of {scheme.method}"
    shape = info.shape
    if row.values == ".qweight" and len(shape) == 2:
        columns = tensors[layer + ".scales"].shape[-1:]
        if columns != shape[1:]:
            shape = (*columns, shape[0])  # AWQ packs along the outputs
        elif layer + ".g_idx" in tensors:
            shape = (shape[1], math.prod(tensors[layer + ".g_idx"].shape))
        elif scheme.bits:
            shape = (shape[1], shape[0] * 32 // scheme.bits)
    beside = tuple(layer + end for end in row.beside)
    more = tuple(layer + end for end in row.more)
    target = info.name if row.values == ".kernel" else layer + ".weight"
    info = info._replace(name=target, dtype=name, shape=shape)
    return _Plan(info, Encoding(name, (layer + row.values, *beside)), (*beside, *more))


def _read_scheme(config: Mapping[str, Any]) -> _Scheme:
    """quantization_config, which stands at the top or in the config of a part."""
    method, bits, blocks = None, None, set()
    for part in (config, *config.values()):
        found = part.get("quantization_config") if isinstance(part, Mapping) else None
        if not isinstance(found, Mapping):
            continue
        method = found["quant_method"] if isinstance(found.get("quant_method"), str) else method
        bits = found["bits"] if found.get("bits") in (2, 3, 4, 8) else bits
        sizes = [found.get("weight_block_size")]
        groups = found.get("config_groups")
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
            blocks.add((size[0], size[1]))
    return _Scheme(method, bits, frozenset(blocks))
