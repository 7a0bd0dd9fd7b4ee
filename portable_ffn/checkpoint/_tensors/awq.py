"""AWQ, the layout "gemm": integers of 4 bits, eight outputs in a word in the order 0 2 4 6 1 3 5 7.

qweight (in, out / 8), qzeros (groups, out / 8) int32, scales (groups, out). Code o of eight stands at the nibble
0 4 1 5 2 6 3 7 of its word; zeros are stored as they are. W[i, o] = (q[i, o] - zero[g, o]) * scale[g, o].
Sources: AutoAWQ 0.2.9 (awq/utils/packing_utils.py), GPTQModel 7.7 (quantization/awq/utils/packing_utils.py).
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from portable_ffn.checkpoint._tensors.affine import Array, affine, group_of
from portable_ffn.checkpoint._tensors.bits import unpack
from portable_ffn.checkpoint._tensors.module import Misfit, Module, Plan

_NIBBLE_OF_OUTPUT: Final = np.array((0, 4, 1, 5, 2, 6, 3, 7))
_SCALES = ("float16", "bfloat16", "float32")


def plan(module: Module) -> Plan | None:
    """The weight of an AWQ layer; None where the config says that another tool wrote the names."""
    scheme = module.scheme.at(module.name)
    auto_round = scheme.method == "auto-round" and "awq" in scheme.text("packing_format")
    if scheme.method != "awq" and not auto_round:
        return None
    version = scheme.text("version", "checkpoint_format", "format") or "gemm"
    if version not in ("gemm", "exllama", "exllamav2") and not auto_round:
        raise Misfit(f"its version {version[:40]!r} is not read; quantise it again with version gemm")
    if scheme.number("bits", "w_bit") not in (None, 4):
        raise Misfit(f"AWQ packs 4 bits, and the config says {scheme.number('bits', 'w_bit')}")
    scales, zeros = module.needed(".scales", *_SCALES), module.needed(".qzeros", "int32")
    if len(module.values.shape) != 2 or len(scales.shape) != 2:
        raise Misfit(f"{module.values.name} must be a matrix, has the shape {module.values.shape}")
    (inputs, words), (groups, out) = module.values.shape, scales.shape
    module.shaped(module.values, (inputs, -(-out // 8)))
    module.shaped(zeros, (groups, words))
    if not groups or inputs % groups:
        raise Misfit(f"{scales.name} must have a row for each group of the {inputs} inputs, has {groups}")
    told = f"{'auto-round ' if auto_round else ''}AWQ 4-bit, groups of {group_of(inputs, groups)}"
    return module.plan(told, (out, inputs), (".qweight", ".qzeros", ".scales"), "awq")


def decode(how: None, arrays: Sequence[Array]) -> Array:
    """The weight (out, in)."""
    qweight, qzeros, scales = arrays
    out = scales.shape[1]
    codes, zeros = (_in_order(words, out) for words in (qweight, qzeros))
    return affine(np.ascontiguousarray(codes.T), scales.T, zeros.T)


def _in_order(words: Array, out: int) -> Array:
    """Codes (rows, out) in the order of the outputs."""
    codes = unpack(words, 4, words.shape[1] * 8)
    return codes.reshape(len(words), -1, 8)[..., _NIBBLE_OF_OUTPUT].reshape(len(words), -1)[:, :out]
