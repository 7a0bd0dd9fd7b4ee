"""Where residual and normalisation stand round a network, by family and names: the one literal table.

Source: the model code of transformers 5.24, where the sum and its normalisation were traced through a forward pass.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from portable_ffn.checkpoint._config.scope import Scope
from portable_ffn.checkpoint._errors import CheckpointError
from portable_ffn.checkpoint._layers.candidates import Info
from portable_ffn.checkpoint._loaded.recipe import NormRecipe


class Placement(NamedTuple):
    """The normalisations round a network, each None where there is none, and the factor of its output.

    `problem` says why the layer can't be loaded with them.
    """

    before: NormRecipe | None = None
    after: NormRecipe | None = None
    post: NormRecipe | None = None
    factor: float = 1.0
    problem: CheckpointError | None = None


class _Row(NamedTuple):
    """The norms' names relative to the layer's path, their kind, and their eps or the config key of it."""

    models: str
    kind: str
    eps: float | str
    before: str | None = None
    after: str | None = None
    post: str | None = None


_ROWS = (
    _Row(
        "bert roberta camembert xlm-roberta electra ernie data2vec-text layoutlm longformer markuplm tapas canine "
        "fnet visual_bert deberta deberta-v2 blip_text_model chinese_clip_text_model",
        "layer",
        "layer_norm_eps",
        post="output.LayerNorm",
    ),
    _Row("distilbert", "layer", 1e-12, post="output_layer_norm"),
    _Row("albert", "layer", "layer_norm_eps", post="full_layer_layer_norm"),
    _Row("openai-gpt", "layer", "layer_norm_epsilon", post="ln_2"),
    _Row("bart plbart blenderbot-small led", "layer", 1e-5, post="final_layer_norm"),
    _Row("mbart pegasus blenderbot m2m_100 whisper speech_to_text", "layer", 1e-5, before="final_layer_norm"),
    _Row("gpt2 gpt_neo gpt_bigcode decision_transformer", "layer", "layer_norm_epsilon", before="ln_2"),
    _Row(
        "llama mistral qwen2 qwen3 phi3 arcee blt smollm3 seed_oss",
        "rms",
        "rms_norm_eps",
        before="post_attention_layernorm",
    ),
    _Row("gemma", "rms1p", "rms_norm_eps", before="post_attention_layernorm"),
    _Row(
        "gemma2 gemma3_text t5gemma_module",
        "rms1p",
        "rms_norm_eps",
        before="pre_feedforward_layernorm",
        after="post_feedforward_layernorm",
    ),
    _Row("olmo2 olmo3", "rms", "rms_norm_eps", after="post_feedforward_layernorm"),
    _Row("t5 mt5 umt5 longt5 switch_transformers", "rms", "layer_norm_epsilon", before="layer_norm"),
    _Row(
        "clip clip_text_model clip_vision_model siglip siglip_text_model siglip_vision_model blip_vision_model",
        "layer",
        "layer_norm_eps",
        before="layer_norm2",
    ),
    _Row("vit deit vit_mae vit_msn videomae", "layer", "layer_norm_eps", before="layernorm_after"),
)
_LAYER = re.compile(r"^(.*\.\d+)(?:\.|$)")


def placement(scope: Scope, parent: str, tensors: Mapping[str, Info], d_model: int) -> Placement | None:
    """The placement round the network under `parent`, or None where the family's is not known."""
    found = _LAYER.match(parent)
    model = scope.model_types[0] if scope.model_types else ""
    row = next((row for row in _ROWS if model in row.models.split()), None)
    if found is None or row is None:
        return None
    try:
        eps = scope.number(row.eps) if isinstance(row.eps, str) else row.eps
    except CheckpointError as error:
        return Placement(problem=error)
    norms: dict[str, NormRecipe] = {}
    for place in ("before", "after", "post"):
        name = getattr(row, place)
        if name is None:
            continue
        gamma, beta = f"{found[1]}.{name}.weight", f"{found[1]}.{name}.bias"
        if gamma not in tensors or eps is None or eps < 0:
            return None
        for key in (gamma, beta):
            if key in tensors and tensors[key].shape != (d_model,):
                told = f"{key} must have shape ({d_model},), got {tensors[key].shape}"
                return Placement(problem=CheckpointError(told))
        norms[place] = NormRecipe(row.kind, gamma, beta if beta in tensors else None, eps)
    return Placement(**norms)  # type: ignore[arg-type]
