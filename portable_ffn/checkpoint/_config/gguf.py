"""The config that a GGUF file's metadata amount to: the architecture's activation and its widths.

In GGUF matrices are (out, in), and a matrix of both branches has the gate first (ggml's swiglu). Source: the graphs of
llama.cpp (src/llama-model.cpp), of which only those are here whose activation is also that of the original model: its
GELU is the tanh form even where the original's is exact, and such an architecture asks for activation=.
"""

from collections.abc import Mapping
from typing import Any

MODEL_TYPE = "gguf"

_ACTIVATIONS = {
    "silu": """
        llama llama4 mistral3 qwen2 qwen2moe qwen2vl qwen3 qwen3moe qwen3vl phi3 phimoe internlm2
        baichuan minicpm minicpm3 stablelm command-r cohere2 olmo olmo2 olmoe deepseek deepseek2
        granite granitemoe exaone exaone4 glm4 glm4moe chatglm smollm3 seed_oss ernie4_5
        hunyuan-dense hunyuan-moe xverse orion nomic-bert
    """,
    "gelu_tanh": "gemma gemma2 gemma3 gpt2 starcoder2 phi2",
    "relu2": "nemotron arcee",
}
_BY_ARCHITECTURE = {name: activation for activation, names in _ACTIVATIONS.items() for name in names.split()}


# Whether the graph divides the softmax's weights by their sum (`build_moe_ffn` in llama.cpp's src/models); the
# architectures of the second line read it, the score and the scale from the metadata.
_SUMMED = {"llama": True, "qwen3moe": True, "qwen2moe": False, "olmoe": False}
_BY_METADATA = frozenset({"deepseek2", "glm4moe", "dots1"})
_GATING = {1: "softmax", 2: "sigmoid"}


def gguf_config(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A config in the words that the others use."""
    architecture = metadata.get("general.architecture")
    said = {
        "model_type": MODEL_TYPE,
        "hidden_act": _BY_ARCHITECTURE.get(architecture) if isinstance(architecture, str) else None,
        "hidden_size": metadata.get(f"{architecture}.embedding_length"),
        "num_experts_per_tok": metadata.get(f"{architecture}.expert_used_count"),
    }
    if isinstance(architecture, str):
        said |= _routing(metadata, architecture)
    return {key: value for key, value in said.items() if value is not None}


def _routing(metadata: Mapping[str, Any], architecture: str) -> dict[str, Any]:
    """How the architecture's router weights its experts; a score of no name where that isn't known."""
    if architecture in _SUMMED:
        return {"scoring_func": "softmax", "norm_topk_prob": _SUMMED[architecture]}
    if architecture not in _BY_METADATA:
        return {"scoring_func": f"not known of {architecture}"}

    def value(key: str) -> Any:
        return metadata.get(f"{architecture}.expert_{key}")

    gating = value("gating_func")
    return {
        "scoring_func": _GATING.get(1 if gating is None else gating, f"gating function {gating}"),
        "norm_topk_prob": bool(value("weights_norm")),
        "routed_scaling_factor": value("weights_scale") or None,
        "n_group": value("group_count"),
        "topk_group": value("group_used_count"),
    }
