"""The quantised formats that are read: one literal table, a row for each way of writing one.

A row is found by the ending of the codes' name, their dtype and what stands beside them, before any shape is looked at;
its plan may still say None where the config names another tool. The first that fits counts. How a format is decoded
stands in its own file.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from portable_ffn.checkpoint._tensors import (
    awq,
    bitsandbytes,
    bitsandbytes_int8,
    compressed,
    compressed_int8,
    fp4,
    fp8,
    gguf,
    gptq,
    mlx,
)
from portable_ffn.checkpoint._tensors.affine import Array
from portable_ffn.checkpoint._tensors.module import Module, Plan

_FLOAT8: Final = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
# bitsandbytes may store its codes under another dtype, for the sake of what moves them (bnb_4bit_quant_storage).
_STORAGE: Final = ("uint8", "bfloat16", "float16", "float32", "int8")


class Format(NamedTuple):
    """A format: its name to people, the codes' ending and dtypes, what must stand beside them, and its plan."""

    name: str
    values: str
    dtypes: tuple[str, ...]
    beside: tuple[str, ...]
    plan: Callable[[Module], Plan | None]


FORMATS: Final = (
    Format("bitsandbytes 4-bit", "", _STORAGE, (".absmax",), bitsandbytes.plan),
    Format("bitsandbytes int8", ".weight", ("int8",), (".SCB",), bitsandbytes_int8.plan),
    Format("GPTQ", ".qweight", ("int32",), (".scales",), gptq.plan),
    Format("AWQ", ".qweight", ("int32",), (".scales",), awq.plan),
    Format("MLX", ".weight", ("uint32",), (".scales",), mlx.plan),
    Format("NVFP4", ".weight_packed", ("uint8",), (".weight_scale", ".weight_global_scale"), fp4.nvfp4),
    Format("NVFP4", ".weight", ("uint8",), (".weight_scale", ".weight_scale_2"), fp4.nvfp4),
    Format("MXFP4", ".weight_packed", ("uint8",), (".weight_scale",), fp4.mxfp4),
    Format("MXFP4", ".weight", ("uint8", "int8"), (), fp4.mxfp4),
    Format("MXFP4", "_blocks", ("uint8",), ("_scales",), fp4.gpt_oss),
    Format("compressed-tensors", ".weight_packed", ("int32",), (".weight_scale",), compressed.plan),
    Format("compressed-tensors", ".weight", ("int8",), (".weight_scale",), compressed_int8.plan),
    Format("FP8", "", _FLOAT8, (), fp8.plan),
)

DECODERS: Final[dict[str, Callable[[Any, Sequence[Array]], Array]]] = {
    "bitsandbytes": bitsandbytes.decode,
    "bitsandbytes int8": bitsandbytes_int8.decode,
    "gptq": gptq.decode,
    "awq": awq.decode,
    "mlx": mlx.decode,
    "fp4": fp4.decode,
    "compressed": compressed.decode,
    "compressed int8": compressed_int8.decode,
    "fp8": fp8.decode,
    "gguf": gguf.decode,
}
