"""The quantised formats that are recognised in order to be refused by name."""

from typing import Final, NamedTuple


class Refused(NamedTuple):
    """A format by the endings of its names: its values, what must stand beside them, what else may."""

    format: str
    values: str
    beside: tuple[str, ...] = ()
    more: tuple[str, ...] = ()


_BNB: Final = (".weight.quant_map", ".weight.nested_absmax", ".weight.nested_quant_map")
_NF4, _FP4 = (f".weight.quant_state.bitsandbytes__{kind}" for kind in ("nf4", "fp4"))

# Each ending follows the layer's name; the values are integers. The first row that fits counts.
REFUSED: Final = (
    Refused("GPTQ", ".qweight", (".qzeros", ".scales", ".g_idx")),
    Refused("AWQ", ".qweight", (".qzeros", ".scales")),
    Refused("GPTQ", ".qweight", (".scales",), (".g_idx",)),
    Refused("bitsandbytes nf4", ".weight", (".weight.absmax", _NF4), _BNB),
    Refused("bitsandbytes fp4", ".weight", (".weight.absmax", _FP4), _BNB),
    Refused("bitsandbytes int8", ".weight", (".SCB",), (".weight_format",)),
    Refused("NVFP4", ".weight", (".weight_scale", ".weight_scale_2"), (".input_scale",)),
    Refused("NVFP4", ".weight_packed", (".weight_scale", ".weight_global_scale"), (".input_global_scale",)),
    Refused(
        "compressed-tensors",
        ".weight_packed",
        (".weight_scale",),
        (".weight_shape", ".weight_zero_point", ".weight_g_idx", ".input_scale", ".input_zero_point"),
    ),
    Refused("EETQ", ".weight", (".weight_scales",)),
    Refused("MLX quantised", ".weight", (".scales",), (".biases",)),
    Refused(
        "scaled integer",
        ".weight",
        (".weight_scale",),
        (".weight_zero_point", ".input_scale", ".input_zero_point"),
    ),
    Refused("quanto", ".weight._data", (".weight._scale",), (".weight._shift", ".input_scale", ".output_scale")),
    Refused("HQQ", ".W_q", (), (".scale", ".zero", ".meta")),
    Refused("AQLM", ".codes", (".codebooks",), (".scales",)),
    Refused("QuIP#", ".Qidxs"),
    Refused("EXL2", ".q_weight", (".q_scale",)),
    Refused("EXL3", ".trellis"),
    Refused("VPTQ", ".indices", (".centroids",)),
    Refused("integer", ".weight"),
    Refused("integer", ".kernel"),
)
