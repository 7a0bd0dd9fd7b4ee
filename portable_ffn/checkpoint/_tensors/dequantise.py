"""The arithmetic of the quantised formats that are read: from codes and scales to float32."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._files.tensor import Encoding

_Array: TypeAlias = np.ndarray[Any, Any]

# The values of E2M1 by their code, the sign in the highest bit (OCP Microscaling Formats v1.0, 5.3.3).
_E2M1: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


def dequantise(name: str, encoding: Encoding, arrays: Sequence[_Array]) -> _Array:
    """The float32 values of a logical tensor, or CheckpointError that names its format."""
    decoder = _DECODERS.get(encoding.format)
    if decoder is None:
        raise CheckpointError(refusal(name, encoding))
    # An overflow to inf or a NaN code is a value of the checkpoint, no fault of the reading.
    with np.errstate(all="ignore"):
        return decoder(name, encoding, arrays)


def refusal(name: str, encoding: Encoding) -> str:
    """What is said of a format that is not read; empty for one that is."""
    if encoding.format in _DECODERS:
        return ""
    return (
        f"{name!r} is quantised as {encoding.format} ({', '.join(encoding.sources)}), which is not read; "
        "dequantise the model with the tool that quantised it, and save it as safetensors"
    )


def _fp8(name: str, encoding: Encoding, arrays: Sequence[_Array]) -> _Array:
    """Eight-bit floats times their scale: one for all, one a row, one an expert, or one a block.

    The product is that of DeepSeek-V3's README_WEIGHTS, "Dequantization Method".
    """
    weight, scale = arrays[0].astype(np.float32), arrays[1].astype(np.float32)
    shape = weight.shape
    fitting = [size for size in sorted(encoding.blocks) if len(shape) > 1 and scale.shape == _in_blocks(shape, *size)]
    if len(fitting) == 1:
        _times_blocks(weight, scale, *fitting[0])
    elif scale.size == 1:
        weight *= scale.reshape(())
    elif scale.shape in (shape[:-1], (*shape[:-1], 1)):
        weight *= scale.reshape(*shape[:-1], 1)
    elif len(shape) == 3 and scale.shape in (shape[:1], (shape[0], 1, 1)):
        weight *= scale.reshape(shape[0], 1, 1)
    else:
        sizes = ", ".join(f"{rows} x {columns}" for rows, columns in sorted(encoding.blocks)) or "unknown"
        raise CheckpointError(
            f"{encoding.sources[1]!r}, of shape {scale.shape}, must be one scale, one a row or one a block for "
            f"{name!r}, of shape {shape}; weight_block_size in quantization_config is {sizes}"
        )
    return weight


def _in_blocks(shape: tuple[int, ...], rows: int, columns: int) -> tuple[int, ...]:
    """How many blocks there are along each axis; the last ones may be cut."""
    return (*shape[:-2], -(-shape[-2] // rows), -(-shape[-1] // columns))


def _times_blocks(weight: _Array, scale: _Array, rows: int, columns: int) -> None:
    """In place, one row of blocks after another: the scales are never spread out over the whole weight."""
    for lead in np.ndindex(weight.shape[:-2]):
        for block in range(scale.shape[-2]):
            part = weight[lead][block * rows : (block + 1) * rows]
            part *= np.repeat(scale[lead][block], min(columns, weight.shape[-1]))[: weight.shape[-1]]


def _mxfp4(name: str, encoding: Encoding, arrays: Sequence[_Array]) -> _Array:
    """32 values of E2M1 share a power of two (OCP Microscaling Formats v1.0, 5.2 and 6.3).

    The low half of a byte comes first, and experts are turned from (out, in) to (in, out), as transformers'
    convert_moe_packed_tensors does it (integrations/mxfp4.py).
    """
    blocks, scales = arrays
    pairs = np.array([(_E2M1[byte & 15], _E2M1[byte >> 4]) for byte in range(256)], np.float32)
    values = pairs[blocks].reshape(*scales.shape, 32)
    powers = np.ldexp(np.float32(1), np.arange(256) - 127).astype(np.float32)
    powers[255] = np.nan  # E8M0 has no other special value
    values *= powers[scales][..., None]
    values = values.reshape(*scales.shape[:-1], scales.shape[-1] * 32)
    return values.swapaxes(-1, -2) if values.ndim > 2 else values


def _q8_0(name: str, encoding: Encoding, arrays: Sequence[_Array]) -> _Array:
    """GGUF's blocks of 32 signed bytes with a float16 scale."""
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    (rows,) = arrays
    if math.prod(rows.shape) == 0:
        return np.zeros((*rows.shape[:-1], rows.shape[-1] // 34 * 32), np.float32)
    return np.asarray(dequantize(rows, GGMLQuantizationType.Q8_0))


_DECODERS: Final[dict[str, Callable[[str, Encoding, Sequence[_Array]], _Array]]] = {
    "FP8": _fp8,
    "MXFP4": _mxfp4,
    "GGUF Q8_0": _q8_0,
}
