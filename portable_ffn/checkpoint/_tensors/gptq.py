"""GPTQ: integers of 2, 3, 4 or 8 bits, a scale and a zero for each group of inputs.

qweight (in * bits / 32, out) int32 packs along the inputs, qzeros (groups, out * bits / 32) int32 along the outputs,
scales (groups, out); g_idx (in,) gives each input's group where they were quantised in the order of their activations.
W[i, o] = (q[i, o] - zero[g, o]) * scale[g, o].

The first version of the format stores zeros less one, `checkpoint_format` "gptq_v2" as they are. GPTQModel adds the
ones to whole words, so that a zero of 0 (stored as all ones) carries into the next, as it borrowed when it was written;
for 3 bits it adds them code by code. auto-round writes the same tensors without g_idx: `packing_format` "auto_round"
as they are, "auto_round:auto_gptq" less one. Sources: GPTQModel 7.7 (nn_modules/qlinear, utils/model.py,
utils/model_dequant.py), auto-round 0.16 (auto_round_extension/torch).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._tensors.affine import Array, affine, group_of
from portable_ffn.checkpoint._tensors.bits import unpack, words_for
from portable_ffn.checkpoint._tensors.module import Misfit, Module, Plan

_BITS = (2, 3, 4, 8)
_SCALES = ("float16", "bfloat16", "float32")


class How(NamedTuple):
    """The bits of a code, the inputs, what a stored zero lacks, and whether there is a g_idx."""

    bits: int
    inputs: int
    less: int
    ordered: bool


def plan(module: Module) -> Plan | None:
    """The weight of a GPTQ layer; None where the config says that another tool wrote the names."""
    scheme = module.scheme.at(module.name)
    method = scheme.method
    if method not in ("gptq", "auto-round") or (method == "auto-round" and "awq" in scheme.text("packing_format")):
        return None
    less = _less(module)
    scales = module.needed(".scales", *_SCALES)
    zeros = module.needed(".qzeros", "int32")
    words, out = _matrix(module, module.values.shape)
    groups = _matrix(module, scales.shape)[0]
    module.shaped(scales, (groups, out))
    order = module.get(".g_idx")
    columns = _matrix(module, zeros.shape)[1]
    # Zeros are packed as the weights are, so that their number tells the bits, layer by layer.
    fitting = [bits for bits in _BITS if columns == words_for(out, bits)]
    said = scheme.number("bits")
    bits = said if said in fitting or not fitting else fitting[0]
    if bits not in _BITS:
        raise Misfit(f"bits in quantization_config must be one of {', '.join(map(str, _BITS))}, got {bits}")
    inputs = words * 32 // bits if order is None or not order.shape else order.shape[0]
    if words != words_for(inputs, bits):
        raise Misfit(f"{module.values.name} must have {words_for(inputs, bits)} rows, has {words}")
    module.shaped(zeros, (groups, words_for(out, bits)))
    size = scheme.number("group_size")
    if order is None and (not groups or inputs % groups) and not (size and size > 0 and groups == -(-inputs // size)):
        raise Misfit(f"{scales.name} must have a row for each group of the {inputs} inputs, has {groups}")
    sources: tuple[str, ...] = (".qweight", ".qzeros", ".scales")
    if order is not None:
        module.shaped(module.needed(".g_idx", "int32", "int64"), (inputs,))
        sources = (*sources, ".g_idx")
    name = "GPTQ" if method == "gptq" else "auto-round"
    told = f"{name} {bits}-bit, groups of {group_of(inputs, groups)}"
    return module.plan(told, (out, inputs), sources, "gptq", How(bits, inputs, less, order is not None))


def _less(module: Module) -> int:
    """What a stored zero lacks, by the version of the format that the config names."""
    settings = module.scheme
    if settings.method == "auto-round":
        packing = settings.text("packing_format", "backend")
        if packing in ("auto_round", "auto-round", "auto_round:auto_gptq", "auto_round:gptq"):
            return int("gptq" in packing)
        raise Misfit(f"auto-round's packing_format {packing[:40]!r} is not read; export it as auto_gptq")
    version = settings.text("checkpoint_format", "format") or "gptq"
    if version not in ("gptq", "gptq_v2") or settings.settings.get("is_marlin_format") is True:
        raise Misfit(f"its checkpoint_format {version[:40]!r} is not read; convert it to gptq with GPTQModel")
    return int(version == "gptq")


def _matrix(module: Module, shape: tuple[int, ...]) -> tuple[int, int]:
    """Both lengths of a matrix."""
    if len(shape) != 2:
        raise Misfit(f"{module.name} must be made of matrices, and one has the shape {shape}")
    return shape[0], shape[1]


def decode(how: How, arrays: Sequence[Array]) -> Array:
    """The weight (out, in)."""
    qweight, qzeros, scales = arrays[:3]
    if how.less and 32 % how.bits == 0:
        ones = np.uint32(sum(1 << i for i in range(0, 32, how.bits)))
        zeros = unpack(qzeros.view(np.uint32) + ones, how.bits, scales.shape[1])
    else:
        zeros = unpack(qzeros, how.bits, scales.shape[1])
        zeros = (zeros + np.uint8(how.less)) & np.uint8((1 << how.bits) - 1)
    groups = None
    if how.ordered:
        groups = arrays[3]
        if groups.size and not 0 <= int(groups.min()) <= int(groups.max()) < len(scales):
            raise CheckpointError(f"g_idx must name groups from 0 to {len(scales) - 1}, names others")
    codes = unpack(qweight.T, how.bits, how.inputs)
    return affine(codes, scales.T, zeros.T, groups)
