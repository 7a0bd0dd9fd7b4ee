"""Floats of four bits, two in a byte, the low half first: MXFP4 and NVFP4, and MXFP6.

MXFP4: 32 values of E2M1 share an exponent of eight bits (OCP Microscaling Formats v1.0, 5.2 and 6.3). The codes are
called weight_packed by compressed-tensors, weight by ModelOpt, Quark and MiMo; transformers' fp8 and DeepSeek-V4 store
them as int8 of half the width; GPT-OSS has NAME_blocks (..., out, groups, 16) and NAME_scales, its experts turned from
(out, in) to (in, out). NVFP4: 16 values share an E4M3, beside a factor of the whole matrix: compressed-tensors divides
by weight_global_scale, ModelOpt multiplies by weight_scale_2. MXFP6 (compressed-tensors): E2M3, four codes in three
bytes from the lowest bit on. Sources: compressed-tensors 0.20 (compressors/nvfp4, mxfp4, mxfp6), nvidia-modelopt 0.47
(quantization/qtensor), transformers 5.24 (integrations/mxfp4.py, finegrained_fp8.py).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from portable_ffn.checkpoint._files.tensor import Encoding, TensorInfo
from portable_ffn.checkpoint._tensors.affine import Array
from portable_ffn.checkpoint._tensors.floats import E2M3, as_factors, is_exponent, pairs_of_e2m1, scaled
from portable_ffn.checkpoint._tensors.module import Misfit, Module, Plan

# What is stored for the activations; it doesn't change the weight.
_INPUTS: Final = (".input_global_scale", ".input_scale", ".weight_shape")


class How(NamedTuple):
    """The dtype of the scales, whether the matrix's factor divides, bits, and whether experts are turned."""

    scales: str
    divide: bool = False
    bits: int = 4
    turned: bool = False


def nvfp4(module: Module) -> Plan | None:
    """The weight of compressed-tensors' or ModelOpt's NVFP4."""
    packed = module.get(".weight_packed") is not None
    codes, factor = (".weight_packed", ".weight_global_scale") if packed else (".weight", ".weight_scale_2")
    scales = module.needed(".weight_scale", "float8_e4m3fn")
    *lead, half = module.values.shape
    module.shaped(scales, (*lead, half // 8))
    if half % 8 or not lead:
        raise Misfit(f"{module.values.name} must hold whole groups of 16, has the shape {module.values.shape}")
    module.shaped(
        module.needed(factor, "float32"), (), (1,), *([(lead[0],), (lead[0], 1, 1)] if len(lead) == 2 else [])
    )
    how = How(scales.dtype, divide=packed)
    return module.plan(
        "NVFP4", (*lead, half * 2), (codes, ".weight_scale", factor), "fp4", how, hidden=_INPUTS, linear=len(lead) == 1
    )


def mxfp4(module: Module) -> Plan | None:
    """The weight of MXFP4 or MXFP6, whose scales are exponents; None where they are something else."""
    ends = (".weight_scale", ".weight_scale_inv", ".scale", ".weight_scale_2")
    codes = module.values.name[len(module.name) :]
    found = [end for end in ends if module.get(end) is not None]
    scales = module.get(found[0]) if len(found) == 1 else None
    if scales is None or not is_exponent(scales.dtype) or len(module.values.shape) < 2:
        return None
    *lead, width = module.values.shape
    groups = scales.shape[-1] if scales.shape else 0
    if scales.shape != (*lead, groups) or groups * 32 not in (width * 2, width * 4 // 3):
        raise Misfit(f"{scales.name} must have an exponent for each 32 codes, has the shape {scales.shape}")
    bits = 4 if groups * 32 == width * 2 else 6
    how = How(scales.dtype, bits=bits)
    shape = (*lead, groups * 32)
    return module.plan(f"MXFP{bits}", shape, (codes, found[0]), "fp4", how, hidden=_INPUTS, linear=len(lead) == 1)


def gpt_oss(module: Module) -> Plan | None:
    """Experts as GPT-OSS stores them: blocks (..., out, groups, 16 bytes), scales (..., out, groups)."""
    blocks = module.values
    scales = module.needed("_scales", "uint8")
    if blocks.shape != (*scales.shape, 16) or len(scales.shape) < 2:
        raise Misfit(f"{blocks.name} and {scales.name} must have shapes (..., n, 16) and (..., n)")
    *experts, out, groups = scales.shape
    # The weights that GPT-OSS stores without quantisation are (experts, in, out).
    shape = (*experts, groups * 32, out) if experts else (out, groups * 32)
    info: TensorInfo = blocks._replace(name=module.name, dtype="float32", shape=shape)
    names = (blocks.name, scales.name)
    return Plan(info, Encoding("MXFP4", names, "fp4", How("uint8", turned=bool(experts))), names)


def decode(how: How, arrays: Sequence[Array]) -> Array:
    """The weight in its shape."""
    codes, scales = arrays[:2]
    factors = as_factors(scales, how.scales)
    if len(arrays) == 3:
        whole = arrays[2].astype(np.float32)
        whole = whole.reshape(-1, *(1 for _ in factors.shape[1:])) if whole.size > 1 else whole.reshape(())
        factors = factors / whole if how.divide else factors * whole
    codes = codes.reshape(*scales.shape[:-1], -1)
    values: Array = scaled(pairs_of_e2m1(codes) if how.bits == 4 else _e2m3(codes), factors)
    return values.swapaxes(-1, -2) if how.turned else values


def _e2m3(codes: Array) -> Array:
    """Four values for each three bytes."""
    triples = codes.reshape(*codes.shape[:-1], -1, 3).astype(np.uint32)
    word = triples[..., 0] | triples[..., 1] << np.uint32(8) | triples[..., 2] << np.uint32(16)
    shifts = np.arange(0, 24, 6, dtype=np.uint32)
    values: Array = np.take(E2M3, word[..., None] >> shifts & np.uint32(63))
    return values.reshape(*codes.shape[:-1], -1)
