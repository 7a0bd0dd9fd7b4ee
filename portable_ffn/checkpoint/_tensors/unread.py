"""The quantised formats that are recognised in order to be refused by name: two literal tables."""

from typing import Final, NamedTuple


class Method(NamedTuple):
    """A format by the config's quant_method: its name, the endings of its codes, whether plain weights change too.

    `online`: weights are plain on disk and quantised at run time, so that what is on disk is not what is computed with.
    """

    name: str
    values: tuple[str, ...]
    online: bool = False


class Refused(NamedTuple):
    """A format by the endings of its names: its codes, what must stand beside them, what else may, and why not."""

    format: str
    values: str
    beside: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    why: str = ""


_TORCHAO: Final = ("._weight_qdata", "._weight_int_data", "._weight_data", ".weight_qdata", ".weight")

# By the config's word. Layers of these files without such codes are plain, and read.
METHODS: Final = {
    "torchao": Method("torchao", _TORCHAO),
    "hqq": Method("HQQ", (".W_q", ".weight")),
    "quanto": Method("quanto", (".weight._data", ".weight._data._data", ".weight._packed", ".weight")),
    "aqlm": Method("AQLM", (".codes", ".weight")),
    "eetq": Method("EETQ int8", (".weight", ".qweight")),
    "bitnet": Method("BitNet", (".weight",), online=True),
    "gemma": Method("Gemma's own integers", (".weight", ".weight_packed")),
    "vptq": Method("VPTQ", (".indices", ".weight")),
    "spqr": Method("SpQR", (".dense_weights", ".weight")),
    "quip": Method("QuIP#", (".Qidxs", ".weight")),
    "quip-sharp": Method("QuIP#", (".Qidxs", ".weight")),
    "exl2": Method("EXL2", (".q_weight", ".weight")),
    "exl3": Method("EXL3", (".trellis", ".weight")),
    "higgs": Method("HIGGS", (".weight",)),
    "fp_quant": Method("FP-Quant", (".qweight", ".weight")),
    "sinq": Method("SINQ", (".W_q", ".weight")),
    "qqq": Method("QQQ", (".B", ".qweight", ".weight")),
    "marlin": Method("Marlin", (".B", ".qweight", ".weight")),
    "bitblas": Method("BitBLAS", (".qweight", ".weight")),
    "paroquant": Method("ParoQuant", (".qweight", ".weight")),
    "four_over_six": Method("FourOverSix", (".weight",)),
}

# Each ending follows the layer's name; the codes are integers or eight-bit floats. The first row that fits counts.
_WHICH: Final = (
    "the config must say which tool wrote it and how its zeros are stored, in quantization_config; give the directory "
    "that has config.json"
)
# Before the formats that are read, since these endings are nobody else's.
REFUSED_FIRST: Final = (
    Refused("quanto", ".weight._data._data", (".weight._scale",), (".weight._shift", ".input_scale", ".output_scale")),
    Refused("quanto", ".weight._data", (".weight._scale",), (".weight._shift", ".input_scale", ".output_scale")),
    Refused("torchao", "._weight_qdata", (), ("._weight_scale", "._weight_zero_point")),
    Refused("HQQ", ".W_q", (), (".scale", ".zero", ".meta")),
    Refused("AQLM", ".codes", (".codebooks",), (".scales",)),
    Refused("QuIP#", ".Qidxs"),
    Refused("EXL2", ".q_weight", (".q_scale",)),
    Refused("EXL3", ".trellis"),
    Refused("VPTQ", ".indices", (".centroids",)),
    Refused("SpQR", ".dense_weights", ()),
)
REFUSED: Final = (
    Refused("GPTQ", ".qweight", (".qzeros", ".scales", ".g_idx"), why=_WHICH),
    Refused("AWQ or GPTQ", ".qweight", (".qzeros", ".scales"), why=_WHICH),
    Refused("GPTQ", ".qweight", (".scales",), (".g_idx",), why=_WHICH),
    Refused("EETQ", ".weight", (".weight_scales",)),
    Refused(
        "scaled integer", ".weight", (".weight_scale",), (".weight_zero_point", ".input_scale", ".input_zero_point")
    ),
    Refused("integer", ".weight"),
    Refused("integer", ".kernel"),
)
