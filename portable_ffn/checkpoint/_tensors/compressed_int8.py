"""compressed-tensors, int-quantized: integers of a byte each, of 8 bits or fewer (W8A8, W4A8).

weight (out, in) int8; weight_scale one for all, (out, 1) or (out, groups); weight_zero_point int8 like it.
(code - zero) * scale. ModelOpt, Gemma and others write the same names and mean more by them, so that the config has to
name the tool. Source: compressed-tensors 0.20 (compressors/naive_quantized; quantization/lifecycle/forward.py).
"""

from collections.abc import Sequence

import numpy as np

from portable_ffn.checkpoint._tensors.affine import Array, affine
from portable_ffn.checkpoint._tensors.compressed import BESIDE, SCALES, groups_of, told
from portable_ffn.checkpoint._tensors.module import Misfit, Module, Plan


def plan(module: Module) -> Plan | None:
    """The weight of such a layer; None where another tool wrote it."""
    if module.scheme.method != "compressed-tensors":
        return None
    if len(module.values.shape) != 2:
        raise Misfit(f"{module.values.name} must be a matrix, has the shape {module.values.shape}")
    out, inputs = module.values.shape
    scales = module.needed(".weight_scale", *SCALES)
    groups = groups_of(module, scales.shape, out)
    sources: tuple[str, ...] = (".weight", ".weight_scale")
    if module.get(".weight_zero_point") is not None:
        module.shaped(module.needed(".weight_zero_point", "int8"), scales.shape)
        sources = (*sources, ".weight_zero_point")
    bits = module.scheme.weights_of(module.name).get("num_bits")
    words = told(bits if type(bits) is int and 0 < bits <= 8 else 8, inputs, groups)
    return module.plan(words, (out, inputs), sources, "compressed int8", hidden=BESIDE)


def decode(how: None, arrays: Sequence[Array]) -> Array:
    """The weight (out, in)."""
    codes, scales = arrays[:2]
    shape = len(codes), scales.shape[1] if scales.ndim == 2 else 1
    scales, *zeros = (np.broadcast_to(array.reshape(-1, shape[1]), shape) for array in arrays[1:])
    return affine(codes, scales, zeros[0] if zeros else None)
