"""Floats of eight bits with their scales: one for all, one a row, one an expert, one a block, or MX.

The value times the scale, as DeepSeek-V3's README_WEIGHTS ("Dequantization Method") has it; the scale is called
NAME_scale_inv (DeepSeek, transformers' fp8), NAME_scale (compressed-tensors, ModelOpt, FBGEMM, Quark) or, beside
NAME.weight, NAME.scale (DeepSeek-V4). A scale of bytes, uint8 or float8_e8m0fnu, is an exponent: 2 ** (byte - 127), by
blocks of 1 x 32 (MX, OCP Microscaling Formats v1.0) or those that the config names. Sources besides: transformers 5.24
(integrations/finegrained_fp8.py: Fp8Dequantize), compressed-tensors 0.20 (compressors/mxfp8).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from portable_ffn.checkpoint._files.tensor import Encoding
from portable_ffn.checkpoint._tensors.affine import Array
from portable_ffn.checkpoint._tensors.floats import as_factors, is_exponent
from portable_ffn.checkpoint._tensors.module import Misfit, Module, Plan

_FACTORS: Final = ("float32", "bfloat16", "float16", "float64")
# What writers store beside a weight for its activations; it doesn't change the weight.
_ACTIVATION_SCALES: Final = (".input_scale", ".input_scale_ub", ".activation_scale", ".output_scale")
_MX: Final = (1, 32)


class How(NamedTuple):
    """The dtype of the scales, and the size of a block; (0, 0) where they are one for all, a row or an expert."""

    scales: str
    block: tuple[int, int] = (0, 0)


def plan(module: Module) -> Plan | None:
    """The weight, and its bias-free scale; the name is the whole tensor's, ".weight" included."""
    name, layer = module.name, module.name.removesuffix(".weight")
    ends = ["_scale_inv", "_scale"]
    found = [name + end for end in ends if name + end in module.tensors]
    if layer != name and layer + ".scale" in module.tensors:
        found.append(layer + ".scale")
    if len(found) != 1 or name + "_scale_2" in module.tensors:
        encoding = Encoding(f"{module.values.dtype} without one scale", (name,))
        return Plan(module.values, encoding, ())
    scale = module.tensors[found[0]]
    shape, hidden = module.values.shape, tuple(layer + end for end in _ACTIVATION_SCALES)
    if scale.dtype not in _FACTORS and not is_exponent(scale.dtype):
        raise Misfit(f"{scale.name} must be a float or an exponent of eight bits, is {scale.dtype}")
    blocks = module.blocks
    if found[0].endswith("_scale_inv"):
        # The name belongs to one scheme, whose blocks are these by default (FineGrainedFP8Config of transformers).
        blocks = blocks or frozenset({(128, 128)})
    block = _block(shape, scale.shape, blocks, is_exponent(scale.dtype))
    if block is None:
        sizes = ", ".join(f"{rows} x {columns}" for rows, columns in sorted(blocks)) or "unknown"
        raise Misfit(
            f"{scale.name!r}, of shape {scale.shape}, must be one scale, one a row or one a block for "
            f"{name!r}, of shape {shape}; weight_block_size in quantization_config is {sizes}"
        )
    told = "MXFP8" if block == _MX and is_exponent(scale.dtype) else "FP8"
    if block != (0, 0) and told == "FP8":
        told += f", blocks of {block[0]} x {block[1]}"
    info = module.values._replace(dtype="float32", linear=name.endswith(".weight") and len(shape) == 2)
    return Plan(info, Encoding(told, (name, scale.name), "fp8", How(scale.dtype, block)), (scale.name, *hidden))


def _block(
    shape: tuple[int, ...], scales: tuple[int, ...], blocks: frozenset[tuple[int, int]], exponent: bool
) -> tuple[int, int] | None:
    """The size of a block; (0, 0) for one scale, one a row or one an expert, None where nothing fits."""
    sizes = blocks | {_MX} if exponent else blocks
    fitting = [size for size in sorted(sizes) if len(shape) > 1 and scales == in_blocks(shape, *size)]
    if len(fitting) == 1 or (fitting and exponent):
        return fitting[0]
    count = 1
    for n in scales:
        count *= n
    plain = count == 1 or scales in (shape[:-1], (*shape[:-1], 1))
    stacked = len(shape) == 3 and scales in (shape[:1], (shape[0], 1, 1), (shape[0], 1, shape[2]))
    return (0, 0) if plain or stacked else None


def in_blocks(shape: tuple[int, ...], rows: int, columns: int) -> tuple[int, ...]:
    """How many blocks there are along each axis; the last ones may be cut."""
    return (*shape[:-2], -(-shape[-2] // rows), -(-shape[-1] // columns))


def decode(how: How, arrays: Sequence[Array]) -> Array:
    """The weight in its shape."""
    weight, scale = arrays[0].astype(np.float32), as_factors(arrays[1], how.scales)
    shape = weight.shape
    if how.block != (0, 0):
        times_blocks(weight, scale, *how.block)
    elif scale.size == 1:
        weight *= scale.reshape(())
    elif scale.shape in (shape[:-1], (*shape[:-1], 1)):
        weight *= scale.reshape(*shape[:-1], 1)
    else:
        # One an expert, or one a column of each: FBGEMM's experts are (in, out).
        weight *= scale.reshape(shape[0], 1, -1)
    return weight


def times_blocks(weight: Array, scale: Array, rows: int, columns: int) -> None:
    """In place, one row of blocks after another: the scales are never spread out over the whole weight."""
    for lead in np.ndindex(weight.shape[:-2]):
        if rows == 1:
            width = weight.shape[-1]
            if width % columns == 0:
                grouped = weight[lead].reshape(weight.shape[-2], -1, columns)
                grouped *= scale[lead][..., None]
                continue
        for block in range(scale.shape[-2]):
            part = weight[lead][block * rows : (block + 1) * rows]
            part *= np.repeat(scale[lead][block], min(columns, weight.shape[-1]))[: weight.shape[-1]]
