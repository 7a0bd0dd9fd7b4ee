"""GGUF: the blocks of ggml, decoded by the package `gguf`, and the factors that stand beside them.

A row is decoded by gguf.quants.dequantize, equal to ggml's C bit for bit. NAME.scale beside NAME.weight multiplies what
the matrix gives: one factor of a whole matrix, one of each expert (llama.cpp, src/llama-model.cpp: ffn_gate_s,
ffn_gate_exps_s and the like). Types that the package doesn't decode (Q1_0, Q2_0, Q4_0_4_4) are refused by name.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from portable_ffn.checkpoint._files.tensor import Encoding, TensorInfo
from portable_ffn.checkpoint._tensors.affine import Array, flat

# Bytes that are decoded at a time: the package makes several copies of the values.
_BLOCK = 1 << 17


class How(NamedTuple):
    """The type of the blocks ("" where the values are plain), and whether a factor stands beside them."""

    kind: str
    factor: bool


def plan_gguf(
    tensors: Mapping[str, TensorInfo], logical: Mapping[str, TensorInfo], kinds: Mapping[str, str]
) -> tuple[dict[str, TensorInfo], dict[str, Encoding]]:
    """The tensors as they are meant: those of blocks, and those with a factor, as float32."""
    meant, encodings = dict(logical), {}
    readable = decodable()
    for name, info in logical.items():
        kind = kinds.get(name, "")
        factor = f"{name.removesuffix('.weight')}.scale" if name.endswith(".weight") else ""
        beside = tensors.get(factor)
        if not kind and beside is None:
            continue
        sources: tuple[str, ...] = (name,)
        fault = ""
        if beside is not None:
            meant.pop(factor, None)
            sources = (name, factor)
            if beside.dtype != "float32" or beside.shape not in (
                (),
                (1,),
                info.shape[:1] if len(info.shape) == 3 else (),
            ):
                fault = f"{factor} must be one float32, or one for each expert, has the shape {beside.shape}"
        read = (not kind or kind in readable) and not fault
        told = f"GGUF {kind}" if kind else f"GGUF {info.dtype} with a factor"
        encodings[name] = Encoding(told, sources, "gguf" if read else "", How(kind, beside is not None), fault)
        meant[name] = info._replace(dtype="float32" if read else told)
    return meant, encodings


def decodable() -> frozenset[str]:
    """The types that the installed package decodes."""
    from gguf import GGMLQuantizationType, quants

    rows = getattr(quants, "_type_traits", None)
    known = {kind.name for kind in rows} if rows else {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K"}
    return frozenset(known & {kind.name for kind in GGMLQuantizationType})


def decode(how: How, arrays: Sequence[Array]) -> Array:
    """The values in their shape."""
    values = _blocks(how.kind, arrays[0]) if how.kind else arrays[0].astype(np.float32)
    if how.factor:
        factor = arrays[1]
        values *= factor.reshape(-1, 1, 1) if factor.size > 1 or values.ndim == 3 else factor.reshape(())
    return values


def _blocks(kind: str, data: Array) -> Array:
    """Rows of blocks as values."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
    from gguf.quants import dequantize

    number = GGMLQuantizationType[kind]
    per_block, block_bytes = GGML_QUANT_SIZES[number]
    width = data.shape[-1] // block_bytes * per_block
    out: np.ndarray[Any, Any] = np.empty((*data.shape[:-1], width), np.float32)
    if out.size == 0:
        return out
    rows, values = flat(data), flat(out)
    step = max(1, _BLOCK // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        values[start : start + step] = dequantize(rows[start : start + step], number)
    return out
