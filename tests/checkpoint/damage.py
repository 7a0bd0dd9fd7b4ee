"""Checkpoints with small faults, by hypothesis: each a file that somebody could give, right or not."""

import copy
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from portable_ffn.checkpoint._files.dtypes import BITS, DISK_NAMES
from tests.checkpoint.made import random

D, F = 4, 6
NAME = "model.safetensors"


class Tensor(NamedTuple):
    """A tensor as a header has it: the disk's name of its dtype, its shape, its bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


class Model(NamedTuple):
    """A checkpoint in memory."""

    tensors: dict[str, Tensor]
    config: dict[str, Any] | None
    metadata: dict[str, str]

    def copy(self) -> "Model":
        """Another that can be changed."""
        config = None if self.config is None else json.loads(json.dumps(self.config))
        return Model(dict(self.tensors), config, dict(self.metadata))

    def header(self) -> bytes:
        """The JSON text of the file's header."""
        entries: dict[str, Any] = {"__metadata__": self.metadata} if self.metadata else {}
        end = 0
        for name, tensor in self.tensors.items():
            begin, end = end, end + len(tensor.data)
            entries[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [begin, end]}
        return json.dumps(entries).encode("utf-8", "surrogatepass")

    def write(self, folder: Path, header: bytes | None = None) -> Path:
        """The directory that holds it, or the file where it has no config."""
        folder.mkdir(parents=True, exist_ok=True)
        text = self.header() if header is None else header
        data = b"".join(tensor.data for tensor in self.tensors.values())
        (folder / NAME).write_bytes(len(text).to_bytes(8, "little") + text + data)
        if self.config is None:
            return folder / NAME
        (folder / "config.json").write_text(json.dumps(self.config))
        return folder


def tensor(array: np.ndarray, dtype: str | None = None) -> Tensor:
    """An array as it is on disk."""
    return Tensor(dtype or DISK_NAMES[array.dtype.name], array.shape, array.tobytes())


def model(shapes: dict[str, tuple[int, ...]], config: dict[str, Any] | None, **metadata: str) -> Model:
    """A checkpoint of random float32 tensors, two layers where a name has a {}."""
    names = {name.format(layer): shape for layer in (0, 1) for name, shape in shapes.items()}
    return Model({name: tensor(random(*shape).astype("<f4")) for name, shape in names.items()}, config, metadata)


def fp8() -> Model:
    """An eight-bit model with scales."""
    made = model(
        {f"model.layers.{{}}.mlp.{n}_proj.weight": s for n, s in (("gate", (F, D)), ("up", (F, D)), ("down", (D, F)))},
        {"model_type": "llama", "hidden_act": "silu", "quantization_config": {"weight_block_size": [2, 2]}},
    )
    for name, old in list(made.tensors.items()):
        made.tensors[name] = Tensor("F8_E4M3", old.shape, bytes(math.prod(old.shape)))
        made.tensors[name + "_scale_inv"] = tensor(np.ones([n // 2 for n in old.shape], "<f4"))
    return made


_GATED = {"gate_proj.weight": (F, D), "up_proj.weight": (F, D), "down_proj.weight": (D, F)}
BASES = {
    "llama": model(
        {f"model.layers.{{}}.mlp.{name}": shape for name, shape in _GATED.items()}
        | {"model.layers.{}.post_attention_layernorm.weight": (D,)},
        {"model_type": "llama", "hidden_act": "silu", "hidden_size": D, "intermediate_size": F, "rms_norm_eps": 1e-6},
    ),
    "bert": model(
        {
            "encoder.layer.{}.intermediate.dense.weight": (F, D),
            "encoder.layer.{}.intermediate.dense.bias": (F,),
            "encoder.layer.{}.output.dense.weight": (D, F),
            "encoder.layer.{}.output.dense.bias": (D,),
            "encoder.layer.{}.output.LayerNorm.weight": (D,),
            "encoder.layer.{}.output.LayerNorm.bias": (D,),
        },
        {"model_type": "bert", "hidden_act": "gelu", "hidden_size": D, "layer_norm_eps": 1e-12},
    ),
    "unknown": model({"net.blocks.{}.mlp.fc1.weight": (F, D), "net.blocks.{}.mlp.fc2.weight": (D, F)}, None),
    "gpt2": model(
        {
            "h.{}.mlp.c_fc.weight": (D, F),
            "h.{}.mlp.c_fc.bias": (F,),
            "h.{}.mlp.c_proj.weight": (F, D),
            "h.{}.mlp.c_proj.bias": (D,),
        },
        {"model_type": "gpt2", "activation_function": "gelu_new", "n_embd": D, "n_inner": F},
    ),
    "gpt_oss": model(
        {
            "model.layers.{}.mlp.experts.gate_up_proj": (2, D, 2 * F),
            "model.layers.{}.mlp.experts.gate_up_proj_bias": (2, 2 * F),
            "model.layers.{}.mlp.experts.down_proj": (2, F, D),
            "model.layers.{}.mlp.experts.down_proj_bias": (2, D),
        },
        {"model_type": "gpt_oss", "hidden_act": "silu", "swiglu_limit": 7.0, "hidden_size": D, "intermediate_size": F},
    ),
    "mixtral": model(
        {
            f"model.layers.{{}}.block_sparse_moe.experts.{n}.{name}.weight": shape
            for n in (0, 1)
            for name, shape in (("w1", (F, D)), ("w2", (D, F)), ("w3", (F, D)))
        },
        {"model_type": "mixtral", "hidden_act": "silu", "hidden_size": D, "intermediate_size": F},
    ),
    "dbrx": model(
        {f"transformer.blocks.{{}}.ffn.experts.mlp.{name}": (2 * F, D) for name in ("w1", "v1", "w2")},
        {"model_type": "dbrx", "d_model": D, "ffn_config": {"moe_num_experts": 2, "ffn_act_fn": {"name": "silu"}}},
    ),
    "apertus": model(
        {"model.layers.{}.mlp.up_proj.weight": (F, D), "model.layers.{}.mlp.down_proj.weight": (D, F)}
        | {f"model.layers.{{}}.mlp.act_fn.{name}": (1,) for name in ("alpha_p", "alpha_n", "beta", "eps")},
        {"model_type": "apertus", "hidden_act": "xielu", "hidden_size": D, "intermediate_size": F},
    ),
    "prelu": model(
        {"h.{}.mlp.c_fc.weight": (D, F), "h.{}.mlp.c_proj.weight": (F, D), "h.{}.mlp.act.weight": (F,)},
        {"model_type": "gpt2", "activation_function": "prelu", "n_embd": D},
    ),
    "bitnet": model(
        {f"model.layers.{{}}.mlp.{name}": shape for name, shape in _GATED.items()}
        | {"model.layers.{}.mlp.ffn_sub_norm.weight": (F,)},
        {"model_type": "bitnet", "hidden_act": "relu2", "hidden_size": D, "rms_norm_eps": 1e-5},
    ),
    "levit": model(
        {"stages.{}.mlp.linear_up.linear.weight": (F, D), "stages.{}.mlp.linear_down.linear.weight": (D, F)}
        | {
            f"stages.{{}}.mlp.{name}.batch_norm.{leaf}": (width,)
            for name, width in (("linear_up", F), ("linear_down", D))
            for leaf in ("weight", "bias", "running_mean", "running_var")
        },
        {"model_type": "levit"},
    ),
    "zamba2": model(
        {
            "model.layers.{}.shared_transformer.feed_forward.gate_up_proj.weight": (2 * F, D),
            "model.layers.{}.shared_transformer.feed_forward.down_proj.weight": (D, F),
            "model.layers.{}.shared_transformer.feed_forward.gate_up_proj_adapter_list.0.0.weight": (2, D),
            "model.layers.{}.shared_transformer.feed_forward.gate_up_proj_adapter_list.0.1.weight": (2 * F, 2),
        },
        {"model_type": "zamba2", "hidden_act": "gelu", "hidden_size": D, "hybrid_layer_ids": [3, 5]},
    ),
    "falcon_h1": model(
        {f"model.layers.{{}}.feed_forward.{name}": shape for name, shape in _GATED.items()},
        {"model_type": "falcon_h1", "hidden_act": "silu", "hidden_size": D, "mlp_multipliers": [0.5, 2.0]},
    ),
    "gemma3n": model(
        {f"language_model.layers.{{}}.mlp.{name}": shape for name, shape in _GATED.items()},
        {
            "model_type": "gemma3n_text",
            "hidden_activation": "gelu_pytorch_tanh",
            "hidden_size": D,
            "intermediate_size": [F, F],
            "activation_sparsity_pattern": [0.95, 0.0],
        },
    ),
    "squeezebert": model(
        {
            "transformer.encoder.layers.{}.intermediate.conv1d.weight": (F, D // 2, 1),
            "transformer.encoder.layers.{}.intermediate.conv1d.bias": (F,),
            "transformer.encoder.layers.{}.output.conv1d.weight": (D, F // 2, 1),
            "transformer.encoder.layers.{}.output.conv1d.bias": (D,),
        },
        {"model_type": "squeezebert", "hidden_act": "gelu", "intermediate_groups": 2, "output_groups": 2},
    ),
    "fp8": fp8(),
    "own": Model(
        {name: tensor(random(*shape)) for name, shape in (("W1", (D, F)), ("b1", (F,)), ("W2", (F, D)), ("V", (D, F)))}
        | {f"before.{name}": tensor(random(D)) for name in ("gamma", "beta")},
        None,
        {
            "portable_ffn": "1",
            "form": "gated",
            "activation": '{"ClippedGate": {"limit": 7.0, "alpha": 1.702, "offset": 1.0, "clip": "before"}}',
            "stages": json.dumps(
                {"after_residual": False, "residual": True, "scale": 0.5, "before": {"kind": "layer", "eps": 1e-5}}
            ),
        },
    ),
}

_DEEP: Any = []
for _ in range(60):
    _DEEP = [_DEEP]
# What stands in no config, and what a careless reader stumbles over.
ODD: list[Any] = [
    None, True, False, 0, 1, 2, 3, D, F, 2 * F, -1, 0.5, -1e-5, 1e-320, 1e308, 2**31, 2**63, 10**400, -(10**400),
    "", "gelu", "silu", "prelu", "xielu", "geglu", "swiglu", "gated-gelu", "no_norm", "1", "\x1b[2J", "\ud800",
    [], [1], [0.5, 0.5], [None], ["gelu"], {}, {"name": "gelu"}, {"name": 1}, {"model_type": "llama"}, _DEEP,
    "llama", "bert", "gemma", "levit", "dory", "timesfm", "mobilebert", "kosmos-2", "gpt_oss", "zamba2", "reformer",
]  # fmt: skip
SHAPES = (
    lambda s: s[1:],
    lambda s: s[:-1],
    lambda s: (1, *s),
    lambda s: (*s, 1),
    lambda s: (2, *s),
    lambda s: s[::-1],
    lambda s: (),
    lambda s: (0, *s[1:]),
    lambda s: (*s[:-1], 0),
    lambda s: (s[0] + 1, *s[1:]) if s else (1,),
    lambda s: (*s[:-1], 2 * s[-1]) if s else (2,),
    lambda s: (s[0] // 2, *s[1:]) if s else (3,),
    lambda s: (1,),
    lambda s: (1, *s[1:]),
)
LEAVES = ("weight", "bias", "kernel", "scale", "weight_scale", "weight_scale_inv", "gamma", "absmax", "0", "\x1b[2J")


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a config, as the keys that lead to it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in inner for place in ((*at, key), *places(item, (*at, key)))]


def put(config: Any, place: tuple[Any, ...], value: Any) -> None:
    """A value in a place of a config."""
    for key in place[:-1]:
        config = config[key]
    config[place[-1]] = value


@st.composite
def damaged(draw: Any, bases: tuple[Model, ...] = tuple(BASES.values())) -> Model:
    """A checkpoint with one to three faults that leave it a well-formed file."""
    made = draw(st.sampled_from(bases)).copy()
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(("shape", "shape", "dtype", "name", "swap", "drop", "config", "config", "text")))
        name = draw(st.sampled_from(sorted(made.tensors))) if made.tensors else None
        if name is not None and kind in ("shape", "dtype", "name", "swap", "drop"):
            old = made.tensors.pop(name)
            if kind == "shape":
                made.tensors[name] = sized(old.dtype, draw(st.sampled_from(SHAPES))(old.shape), old.data)
            elif kind == "dtype":
                made.tensors[name] = sized(draw(st.sampled_from(sorted(DISK_NAMES.values()))), old.shape, old.data)
            elif kind == "name":
                leaf = draw(st.sampled_from(LEAVES))
                made.tensors[f"{name.rpartition('.')[0]}.{leaf}" if draw(st.booleans()) else f"{name}.{leaf}"] = old
            elif kind == "swap":
                other = draw(st.sampled_from(sorted({*made.tensors, name})))
                made.tensors[name] = made.tensors.get(other, old)
                made.tensors[other] = old
        elif kind == "config" and made.config is not None:
            known = places(made.config)
            place = draw(st.sampled_from(known)) if known else ("model_type",)
            put(made.config, place, copy.deepcopy(draw(st.sampled_from(ODD))))
        elif made.metadata:
            key = draw(st.sampled_from(sorted(made.metadata)))
            made.metadata[key] = draw(texts(made.metadata[key]))
    return made


@st.composite
def texts(draw: Any, old: str) -> str:
    """A text of the metadata with a fault: JSON with an odd value in a place, or another text."""
    try:
        value = json.loads(old)
    except ValueError:
        value = None
    known = places(value)
    if not known or draw(st.integers(0, 3)) == 0:
        return str(draw(st.sampled_from([*map(str, ODD), "{}", "[]", "{", "NaN", "[" * 5000, "9" * 5000])))
    put(value, draw(st.sampled_from(known)), copy.deepcopy(draw(st.sampled_from(ODD))))
    return json.dumps(value)


def sized(dtype: str, shape: tuple[int, ...], data: bytes) -> Tensor:
    """A tensor of that dtype and shape, its bytes taken from others."""
    bits = BITS[next(name for name, disk in DISK_NAMES.items() if disk == dtype)]
    shape = shape if math.prod(shape) * bits % 8 == 0 else (*shape, 8)
    nbytes = math.prod(shape) * bits // 8
    return Tensor(dtype, shape, ((data or b"\0") * (nbytes // max(len(data), 1) + 1))[:nbytes])


@st.composite
def bent(draw: Any, data: bytes) -> bytes:
    """Bytes with one to three faults: some lost, doubled, or in the place of others."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.sampled_from((1, 1, 2, 8, 40))))
        words = (
            b"",
            data[at:end] * 2,
            b"9",
            b"-1",
            b"1e999",
            b"null",
            b"[]",
            b'"',
            b"}",
            b"\xff",
            b'"F16"',
            b"9" * 401,
        )
        data = data[:at] + draw(st.sampled_from(words)) + data[end:]
    return data
