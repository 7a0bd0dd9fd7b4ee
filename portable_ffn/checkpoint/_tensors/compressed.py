"""compressed-tensors, pack-quantized: integers of 1 to 8 bits packed into words.

weight_packed (out, in * bits / 32) int32, each code plus 2 ** (bits - 1), one after another across words; weight_scale
(out, groups); weight_zero_point packed likewise but along the outputs; weight_shape cuts what is padded. Older writers
began every word anew where bits don't divide 32. weight_g_idx gives each input's group, unless it holds -1.
(code - zero) * scale. Source: compressed-tensors 0.20 (compressors/pack_quantized; quantization/lifecycle/forward.py).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._tensors.affine import Array, affine, group_of
from portable_ffn.checkpoint._tensors.bits import unpack, words_for
from portable_ffn.checkpoint._tensors.module import Misfit, Module, Plan

SCALES: Final = ("bfloat16", "float16", "float32")
BESIDE: Final = (".weight_shape", ".weight_g_idx", ".input_scale", ".input_zero_point", ".input_global_scale")


class How(NamedTuple):
    """Bits and inputs of the codes, whether words begin anew, whether there are zeros, and groups."""

    bits: int
    inputs: int
    anew: bool
    zeros: bool
    ordered: bool


def plan(module: Module) -> Plan | None:
    """The weight of a layer of packed integers."""
    sparse = module.scheme.text("format")
    if "24" in sparse or module.get(".meta") is not None:
        raise Misfit(f"its format {sparse[:40] or 'marlin-24'!r} is not read; save it as pack-quantized")
    said = module.small(module.needed(".weight_shape", "int64", "int32")).reshape(-1)
    if said.size != 2 or not all(0 <= int(n) < 2**31 for n in said):
        raise Misfit(f"{module.name}.weight_shape must be two numbers, is {str(said.tolist())[:60]}")
    out, inputs = (int(n) for n in said)
    words = module.values.shape[-1] if len(module.values.shape) == 2 else -1
    module.shaped(module.values, (out, words))
    told_bits = module.scheme.weights_of(module.name).get("num_bits")
    fitting = [b for b in range(1, 9) if words in (words_for(inputs, b), -(-inputs // (32 // b)))]
    bits = told_bits if told_bits in fitting else fitting[0] if len(fitting) == 1 else None
    if type(bits) is not int:
        raise Misfit(
            f"{module.values.name} must hold {inputs} codes a row, and {told_bits} bits in {words} words don't"
        )
    anew = words != words_for(inputs, bits)
    scales = module.needed(".weight_scale", *SCALES)
    groups = groups_of(module, scales.shape, out)
    sources: tuple[str, ...] = (".weight_packed", ".weight_scale")
    zeros = module.get(".weight_zero_point")
    if zeros is not None:
        lead = (words_for(out, bits), -(-out // (32 // bits)))
        module.shaped(module.needed(".weight_zero_point", "int32"), *((n, groups) for n in lead))
        sources = (*sources, ".weight_zero_point")
    order = module.get(".weight_g_idx")
    if order is not None:
        module.shaped(module.needed(".weight_g_idx", "int32", "int64"), (inputs,))
        sources = (*sources, ".weight_g_idx")
    how = How(bits, inputs, anew, zeros is not None, order is not None)
    return module.plan(told(bits, inputs, groups), (out, inputs), sources, "compressed", how, hidden=BESIDE)


def groups_of(module: Module, shape: tuple[int, ...], out: int) -> int:
    """How many groups a row has: scales are one for all, one a row or several a row."""
    if shape in ((), (1,), (out,)):
        return 1
    if len(shape) != 2 or shape[0] not in (1, out) or not shape[1]:
        raise Misfit(f"{module.name}.weight_scale must have a row for each of {out} outputs, has the shape {shape}")
    return shape[1]


def told(bits: int, inputs: int, groups: int) -> str:
    """The format in words."""
    size = group_of(inputs, groups)
    return f"compressed-tensors int{bits}, {f'groups of {size}' if groups > 1 else 'a scale a row'}"


def decode(how: How, arrays: Sequence[Array]) -> Array:
    """The weight (out, in)."""
    codes, scales = arrays[:2]
    rows = len(codes)
    rest = list(arrays[2:])
    count = scales.shape[1] if scales.ndim == 2 else 1
    scales = np.broadcast_to(scales.reshape(-1, count), (rows, count))
    zeros = rest.pop(0) if how.zeros else None
    codes = _unpack(codes, how.bits, how.inputs, how.anew)
    if zeros is None:
        zeros = np.broadcast_to(np.full((1, 1), 1 << (how.bits - 1), np.uint8), scales.shape)
    else:
        # Codes and zeros are both stored with the middle added, which their difference doesn't have.
        zeros = _unpack(np.ascontiguousarray(zeros.T), how.bits, rows, len(zeros) != words_for(rows, how.bits)).T
    groups = None
    if how.ordered and not (rest[0] == -1).any():
        groups = rest[0]
        if groups.size and not 0 <= int(groups.min()) <= int(groups.max()) < count:
            raise CheckpointError(f"weight_g_idx must name groups from 0 to {count - 1}, names others")
    return affine(codes, scales, zeros, groups)


def _unpack(words: Array, bits: int, count: int, anew: bool) -> Array:
    """Codes along the last axis."""
    if not anew:
        return unpack(words, bits, count)
    per = 32 // bits
    shifts = np.arange(per, dtype=np.uint32) * np.uint32(bits)
    wide = words.view(np.uint32)[..., None] >> shifts & np.uint32((1 << bits) - 1)
    return wide.astype(np.uint8).reshape(*words.shape[:-1], -1)[..., :count]
