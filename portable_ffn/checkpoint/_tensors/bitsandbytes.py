"""bitsandbytes of four bits: nf4 and fp4, plain and nested.

Four bits: the flat weight in blocks of 64 (they don't begin anew in each row), two codes a byte, the high half first;
each code is looked up in quant_map (16 values) and multiplied by its block's absmax. Nested: absmax is a byte itself,
looked up in nested_quant_map (256 values), times nested_absmax of its block of 256, plus nested_offset. The JSON in
quant_state has shape, blocksize, nested_blocksize and nested_offset. The codes may be stored under another dtype
(bnb_4bit_quant_storage).  Sources: bitsandbytes 0.50
(functional.py: QuantState.from_dict, dequantize_4bit).
"""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from portable_ffn.checkpoint._tensors.affine import Array, row_blocks
from portable_ffn.checkpoint._tensors.module import Misfit, Module, Plan, decoded_shape

_STATE: Final = ".quant_state.bitsandbytes__"


class How(NamedTuple):
    """The weight's shape, its blocks; those of absmax and what is added to it, where it is nested."""

    shape: tuple[int, ...]
    block: int
    nested: int = 0
    offset: float = 0.0


def plan(module: Module) -> Plan | None:
    """The weight of a layer of four bits."""
    kind = next((kind for kind in ("nf4", "fp4") if module.get(_STATE + kind) is not None), None)
    if kind is None:
        return None
    state = _state(module, _STATE + kind)
    shape = state.get("shape")
    block, nested = state.get("blocksize"), state.get("nested_blocksize", 0)
    offset = state.get("nested_offset", 0.0)
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 2**40 for n in shape) or not shape:
        raise Misfit(f"quant_state must give a shape, gives {str(shape)[:60]}")
    if not all(type(n) is int and 0 <= n < 2**31 for n in (block, nested)) or not block:
        raise Misfit(f"quant_state must give a blocksize, gives {str(block)[:40]} and {str(nested)[:40]}")
    if isinstance(offset, bool) or not isinstance(offset, int | float):
        raise Misfit(f"quant_state must give nested_offset as a number, gives {str(offset)[:40]}")
    count = 1
    for n in decoded_shape(tuple(shape)):
        count *= n
    if module.values.nbytes != -(-count // 2):
        raise Misfit(f"{module.values.name} must hold {-(-count // 2)} bytes for the shape {shape}")
    blocks = -(-count // block)
    absmax = module.shaped(module.needed(".absmax"), (blocks,))
    module.shaped(module.needed(".quant_map", "float32"), (16,))
    sources: tuple[str, ...] = ("", ".absmax", ".quant_map")
    how = How(tuple(shape), block)
    if absmax.dtype == "uint8":
        if not nested:
            raise Misfit("quant_state must give nested_blocksize, since absmax holds bytes")
        module.shaped(module.needed(".nested_absmax", "float32"), (-(-blocks // nested),))
        module.shaped(module.needed(".nested_quant_map", "float32"), (256,))
        sources = (*sources, ".nested_absmax", ".nested_quant_map")
        how = how._replace(nested=nested, offset=float(offset))
    told = f"bitsandbytes {kind}{' nested' if how.nested else ''}, blocks of {block}"
    ends = (_STATE + kind, ".nested_absmax", ".nested_quant_map")
    linear = len(shape) == 2
    return module.plan(told, tuple(shape), sources, "bitsandbytes", how, target="", hidden=ends, linear=linear)


def _state(module: Module, end: str) -> dict[str, Any]:
    """The JSON of quant_state."""
    data = module.small(module.needed(end, "uint8")).tobytes()
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise Misfit(f"{module.name + end} must be JSON, and isn't") from None
    if not isinstance(found, dict):
        raise Misfit(f"{module.name + end} must be a JSON object")
    return found


def decode(how: How, arrays: Sequence[Array]) -> Array:
    """The weight in its shape."""
    codes, absmax, table = arrays[:3]
    scales = absmax.astype(np.float32)
    if how.nested:
        wide = np.repeat(arrays[3], how.nested)[: absmax.size]
        scales = np.take(arrays[4], absmax) * wide + np.float32(how.offset)
    pairs = np.stack([np.repeat(table, 16), np.tile(table, 16)], axis=1).astype(np.float32).view(np.uint64)[:, 0]
    data = np.ascontiguousarray(codes).reshape(-1).view(np.uint8)
    count = int(np.prod(how.shape, dtype=np.int64))
    whole = count // how.block
    values = np.empty(data.size * 2, np.float32)
    for part in row_blocks(data.size, 2):
        np.take(pairs, data[part], out=values.view(np.uint64)[part])
    values = values[:count]
    blocks = values[: whole * how.block].reshape(whole, how.block)
    blocks *= scales[:whole, None]
    if count > whole * how.block:
        values[whole * how.block :] *= scales[whole]
    return values.reshape(how.shape)
