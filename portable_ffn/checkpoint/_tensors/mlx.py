"""MLX: integers of 2, 3, 4, 5, 6 or 8 bits with a scale and a bias a group, and floats of 4 or 8 bits.

weight (..., out, in * bits / 32) uint32, codes one after another from the lowest bit on, across words; scales and
biases (..., out, in / group). Affine: code * scale + bias. The modes of floats have no biases and their scales are
bytes: mxfp4 and mxfp8 an exponent for 32, nvfp4 an E4M3 for 16. Bits, group and mode stand under "quantization" in the
config, for single layers under the layer's own name there. Sources: mlx 0.32 (mlx/ops.cpp: quantize, dequantize;
mlx/backend/cpu/quantized.cpp), mlx-lm (utils.py: quantize_model).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from portable_ffn.checkpoint._tensors.affine import Array, flat, row_blocks
from portable_ffn.checkpoint._tensors.bits import unpack
from portable_ffn.checkpoint._tensors.floats import pairs_of_e2m1, powers, scaled
from portable_ffn.checkpoint._tensors.module import Misfit, Module, Plan

_BITS: Final = (2, 3, 4, 5, 6, 8)
# Bits and group of each mode of floats.
_FLOATS: Final = {"mxfp4": (4, 32), "mxfp8": (8, 32), "nvfp4": (4, 16)}


class How(NamedTuple):
    """The mode and the bits of a code."""

    mode: str
    bits: int


def plan(module: Module) -> Plan | None:
    """The weight of an MLX layer."""
    scales = module.needed(".scales")
    scheme = module.scheme.at(module.name)
    mode, group = scheme.text("mode") or "affine", scheme.number("group_size")
    lead, inputs = scales.shape[:-1], 0
    if not lead or module.values.shape[:-1] != lead:
        raise Misfit(
            f"{scales.name} must have the rows of {module.values.name}, {module.values.shape[:-1]}, has {lead}"
        )
    floats = scales.dtype == "uint8"
    if floats and mode == "affine":
        raise Misfit("scales of bytes need their mode, which the config must give under quantization")
    if floats != (mode in _FLOATS):
        raise Misfit(f"the mode {mode[:40]!r} is not read, or doesn't fit scales of {scales.dtype}")
    bits = scheme.number("bits")
    if floats:
        bits, group = _FLOATS[mode]
    if bits not in _BITS or not group or not 0 < group < 2**20:
        raise Misfit("bits and group_size must stand under quantization in the config; give the directory that has it")
    inputs = scales.shape[-1] * group
    module.shaped(module.values, (*lead, inputs * bits // 32))
    if inputs * bits % 32:
        raise Misfit(f"{inputs} inputs of {bits} bits must fill whole words")
    sources: tuple[str, ...] = (".weight", ".scales")
    if not floats:
        module.shaped(module.needed(".biases", scales.dtype), scales.shape)
        sources = (*sources, ".biases")
    told = f"MLX {bits}-bit, groups of {group}" if not floats else f"MLX {mode}"
    linear = len(lead) == 1
    return module.plan(told, (*lead, inputs), sources, "mlx", How(mode, bits), linear=linear)


def decode(how: How, arrays: Sequence[Array]) -> Array:
    """The weight (..., out, in)."""
    words, scales = arrays[:2]
    if how.mode != "affine":
        return scaled(_floats(how, words), _float_scales(how, scales))
    inputs = words.shape[-1] * 32 // how.bits
    out = np.empty((*words.shape[:-1], inputs), np.float32)
    rows, wide, scale, bias = flat(out), flat(words), flat(scales), flat(arrays[2])
    count = scale.shape[1]
    for part in row_blocks(len(rows), inputs):
        values = rows[part]
        np.copyto(values, unpack(wide[part], how.bits, inputs), casting="unsafe")
        grouped = values.reshape(len(values), count, -1)
        grouped *= scale[part].astype(np.float32)[..., None]
        grouped += bias[part].astype(np.float32)[..., None]
    return out


def _floats(how: How, words: Array) -> Array:
    """The values before their scales."""
    if how.bits == 4:
        return pairs_of_e2m1(words)
    import ml_dtypes

    return np.asarray(np.ascontiguousarray(words).view(ml_dtypes.float8_e4m3fn), np.float32)


def _float_scales(how: How, scales: Array) -> Array:
    """Exponents of 32, or E4M3 of 16."""
    if how.mode != "nvfp4":
        return powers(scales)
    import ml_dtypes

    return np.asarray(np.ascontiguousarray(scales).view(ml_dtypes.float8_e4m3fn), np.float32)
