"""bitsandbytes of eight bits: code * SCB / 127, SCB one value a row.

The layout must be that of rows: weight_format is 0 or lacks. Source: bitsandbytes 0.50 (functional.py:
int8_vectorwise_dequant; nn/modules.py: Linear8bitLt).
"""

from collections.abc import Sequence

import numpy as np

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._tensors.affine import Array
from portable_ffn.checkpoint._tensors.module import Misfit, Module, Plan


def plan(module: Module) -> Plan | None:
    """The weight of a layer of eight bits."""
    shape = module.values.shape
    if len(shape) < 2:
        raise Misfit(f"{module.values.name} must be a matrix, has the shape {shape}")
    module.shaped(module.needed(".SCB", "float32", "float16", "bfloat16"), shape[:-1], (*shape[:-1], 1))
    layout = module.get(".weight_format")
    if layout is not None and layout.nbytes and module.small(layout).any():
        raise Misfit(f"{layout.name} must be 0, the layout row by row; save the model with bitsandbytes 0.45 or later")
    sources = (".weight", ".SCB")
    return module.plan("bitsandbytes int8", shape, sources, "bitsandbytes int8", hidden=(".weight_format",))


def decode(how: None, arrays: Sequence[Array]) -> Array:
    """The weight (out, in)."""
    codes, rows = arrays
    if rows.size != codes[..., 0].size:
        raise CheckpointError("SCB must have a value for each row")
    scale = rows.astype(np.float32).reshape(*codes.shape[:-1], 1) / np.float32(127)
    values: Array = np.multiply(codes, scale, dtype=np.float32)
    return values
