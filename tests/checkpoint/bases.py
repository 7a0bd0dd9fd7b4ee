"""Small checkpoints of many kinds in memory, to be written whole or with a fault."""

import json
import math
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from portable_ffn.checkpoint._files.dtypes import DISK_NAMES
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
            "model.layers.{}.mlp.router.weight": (2, D),
            "model.layers.{}.mlp.router.bias": (2,),
        },
        {
            "model_type": "gpt_oss",
            "hidden_act": "silu",
            "swiglu_limit": 7.0,
            "hidden_size": D,
            "num_experts_per_tok": 1,
        },
    ),
    "mixtral": model(
        {
            f"model.layers.{{}}.block_sparse_moe.experts.{n}.{name}.weight": shape
            for n in (0, 1)
            for name, shape in (("w1", (F, D)), ("w2", (D, F)), ("w3", (F, D)))
        }
        | {"model.layers.{}.block_sparse_moe.gate.weight": (2, D)},
        {"model_type": "mixtral", "hidden_act": "silu", "hidden_size": D, "num_experts_per_tok": 1},
    ),
    "dbrx": model(
        {f"transformer.blocks.{{}}.ffn.experts.mlp.{name}": (2 * F, D) for name in ("w1", "v1", "w2")}
        | {"transformer.blocks.{}.ffn.router.layer.weight": (2, D)},
        {
            "model_type": "dbrx",
            "d_model": D,
            "ffn_config": {"moe_num_experts": 2, "moe_top_k": 1, "ffn_act_fn": {"name": "silu"}},
        },
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


def loaded(folder: Path) -> Model:
    """A checkpoint of one safetensors file on disk."""
    data = (folder / NAME).read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = Tensor(entry["dtype"], tuple(entry["shape"]), data[start + begin : start + end])
    config = json.loads((folder / "config.json").read_text()) if (folder / "config.json").exists() else None
    return Model(tensors, config, metadata)


def gguf(kind: int = 0) -> bytes:
    """A GGUF file of one layer, by hand: float32 (0) or Q8_0 (8)."""

    def text(word: str) -> bytes:
        return struct.pack("<Q", len(word)) + word.encode()

    pairs = (
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("llama.embedding_length") + struct.pack("<II", 4, 32),
        text("llama.feed_forward_length") + struct.pack("<IIQ2I", 9, 4, 2, 64, 64),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b"),
    )
    entries, data = b"", b""
    for name, width, rows in (("ffn_gate", 32, 64), ("ffn_up", 32, 64), ("ffn_down", 64, 32)):
        entries += text(f"blk.0.{name}.weight") + struct.pack("<I2QIQ", 2, width, rows, kind, len(data))
        data += bytes(rows * (width * 4 if kind == 0 else width // 32 * 34))
        data += bytes(-len(data) % 32)
    header = b"GGUF" + struct.pack("<IQQ", 3, 3, len(pairs)) + b"".join(pairs) + entries
    return header + bytes(-len(header) % 32) + data
