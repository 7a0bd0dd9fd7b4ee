"""What a model family does otherwise than its config and its tensors' names say: the one literal table.

A row is stated only where the general reading would be wrong or undecided. The general reading of a surveyed family
(`surveyed`) is: matrices are (out, in), the gate is the first half of a fused matrix, and the activation is the one
that the config names, a plain "gelu" being the exact one. Source: the model code of transformers 5.24, compared
numerically with these rows.
"""

import re

from portable_ffn.checkpoint._config.family import Clip, Family, Norm, Softcap, Switch, TopK
from portable_ffn.checkpoint._config.scope import Scope

_CLIP = Clip("swiglu_limit", named=True)
# GPT-OSS as OpenAI released it has no swiglu_alpha in its config: the model's code fixes 1.702.
_GPT_OSS = Clip("swiglu_limit", "swiglu_alpha", 1.0, alpha_else=1.702)

FAMILIES = (
    # Activations that neither a key nor the survey can say.
    Family("esm", activation="gelu"),
    Family("evolla EvollaModel", r"protein_encoder\.encoder|protein_encoder\.model", activation="gelu"),
    Family("xlm flaubert", activation=Switch("gelu_activation", "gelu", "relu")),
    Family("bloom", activation="bloom_gelu"),
    Family("gemma openai-gpt", means=("gelu", "gelu_tanh")),
    Family("edgetam_video", r"spatial_perceiver", before=Norm("layer_norm")),
    Family("granite_speech granite_speech_plus", r"\.ff[12]$", before=Norm("pre_norm")),
    # Clamped and capped gates.
    Family("gpt_oss", activation=_GPT_OSS, gate="interleaved", layout="in_out"),
    Family("openai_privacy_filter", activation=_GPT_OSS, gate="first", layout="in_out"),
    Family("minimax_m3_vl minimax_m3_vl_text", r"^(?!.*vision)", activation=_GPT_OSS),
    Family("deepseek_v4", activation=_CLIP),
    Family("glm5_next glm5_next_text glm5_next_vision", activation=_CLIP),
    Family("hy_v4 hy_v4_vl hy_v4_vl_text", r"\bexperts\b", activation=_CLIP),
    Family("step3p7", r"share", activation=Clip("swiglu_limits_shared", clip="after", optional=True, named=True)),
    Family("step3p7", r"moe", activation=Clip("swiglu_limits", clip="after", optional=True, named=True)),
    Family(
        "inkling2 inkling2_text inkling2_loop inkling2_loop_text",
        r"\bexperts\b",
        activation=Softcap("mlp_gate_softcap", "mlp_up_softcap"),
    ),
    Family("gemma3n gemma3n_text", r"\.mlp$", activation=TopK("activation_sparsity_pattern")),
    # The half of a fused matrix that is the gate, where it is not the first.
    Family("moonshine moonshine_streaming", r"decoder", gate="second"),
    Family("clvp clvp_encoder", gate="second"),
    Family(
        "phi4_multimodal phi4_multimodal_audio",
        r"audio|encoders\.\d+\.feed_forward",
        gate="second",
        before=Norm("layer_norm"),
    ),
    Family("gguf", gate="first", layout="out_in"),
    Family("diffusers_unet", r"\.ff$|\.ff\.net$", activation="gelu", gate="second", layout="out_in"),
    # Matrices (in, out): Conv1D and stacks of experts.
    Family("gpt2 openai-gpt imagegpt decision_transformer", layout="in_out"),
    Family("clvp clvp_decoder", r"decoder", layout="in_out"),
    Family("llama4 llama4_text aria aria_text", r"\bexperts\b", layout="in_out"),
    Family("dbrx", packed="moe_num_experts"),
    # Normalisation, residual and scales inside.
    Family("evolla EvollaModel", r"resampler|adapter", before=Norm("norm")),
    Family("idefics idefics_perciever", r"resampler", before=Norm("ln"), free_width=True),
    Family("roberta-prelayernorm", before=Norm("intermediate.LayerNorm", eps="layer_norm_eps")),
    Family("reformer", before=Norm("layer_norm", eps="layer_norm_eps")),
    Family("timesfm", before=Norm("layer_norm", eps=1e-6), residual=True, accept=True),
    Family(
        "kosmos-2 kosmos_2_text_model kosmos-2.5 kosmos_2_5_text_model",
        r"ffn",
        middle=Norm("ffn_layernorm", eps="layer_norm_eps"),
    ),
    Family("bitnet", middle=Norm("ffn_sub_norm", "rms", "rms_norm_eps")),
    Family("dory", middle=Norm("", "l2", 1e-6), scales=(("W1", "suv_gate"), ("V", "suv_up"))),
    Family("xlnet", after=Norm("layer_norm", eps="layer_norm_eps"), after_residual=True),
    Family("funnel", after=Norm("layer_norm", eps="layer_norm_eps"), after_residual=True),
    Family(
        "mobilebert",
        r"\.ffn\.\d+$",
        after=Norm("output.LayerNorm", "normalization_type", "layer_norm_eps"),
        after_residual=True,
    ),
    Family("muse_spark muse_spark_text", r"experts$", after=Norm("post_expert_norm", "rms_of_scaled", "post_norm_eps")),
    Family("dab-detr", r"decoder\..*mlp$", after=Norm("final_layer_norm"), after_residual=True),
    Family("oneformer", r"\.ffn$", ("pre_norm", False), after=Norm("norm"), after_residual=True),
    Family("oneformer", r"\.ffn$", ("pre_norm", True), before=Norm("norm"), residual=True),
    Family("lw_detr rf_detr", r"decoder\.", residual=True),
    Family(
        "gemma3n gemma3n_text",
        r"laurel$",
        activation="identity",
        after=Norm("post_laurel_norm", "rms", "rms_norm_eps"),
        residual=True,
        accept=True,
    ),
    Family(
        "gemma3n gemma3n_audio",
        r"ffw_layer",
        before=Norm("pre_layer_norm", "rms", 1e-6),
        after=Norm("post_layer_norm", "rms", 1e-6),
        residual=True,
        scale="conf_residual_weight",
        free_width=True,
    ),
    Family(
        "gemma4 gemma4_audio",
        r"feed_forward[12]$",
        before=Norm("pre_layer_norm", "rms", 1e-6),
        after=Norm("post_layer_norm", "rms", 1e-6),
        residual=True,
        scale="residual_weight",
        free_width=True,
    ),
    Family(
        "levit", batch_norm=(("W1", "linear_up.batch_norm", True, 1e-5), ("W2", "linear_down.batch_norm", True, 1e-5))
    ),
    # Its BatchNorm norm1 stands before the network, under the same path; the network is without it here.
    Family("swiftformer", r"\.linear$", beside="norm1"),
    Family("falcon_h1", multipliers=(("W1", "mlp_multipliers", 0), ("W2", "mlp_multipliers", 1))),
    Family("zamba2", lora="gate_up_proj_adapter_list"),
    Family("squeezebert", groups=("intermediate_groups", "output_groups")),
    Family("axk2", r"layernorm$", accept=True, free_width=True),
    # The config at the root speaks for layers whose path names another.
    Family("grounding-dino mm-grounding-dino", r"text_enhancer_layer", root=True, free_width=True),
    # Paths that leave out the word by which the config calls their part.
    Family("cosmos3_omni", r"^blocks\.", words="vision"),
    Family("deepseek_ocr2 unlimited_ocr", r"\bsam_model\b", words="vision"),
    Family("unlimited_ocr", r"\bvision_model\b", words="vision encoder"),
    Family("fun_asr_nano", r"projector", words="adaptor"),
    Family("tipsv2_dpt", words="backbone"),
    Family("jev", words="text"),
    Family("pi0", r"gemma_expert", words="dit"),
    Family("pi0", r"\.paligemma\.", words="vlm"),
    # Widths that the config gives twice over, or not at all.
    Family("recurrent_gemma moshi moshi_depth kyutai_speech_to_text deimv2", halved=True),
    Family("evolla EvollaModel", r"adapter|resampler", free_width=True),
    Family("lilt", free_width=True),
    Family("gemma3n_text gemma4_text gemma4_unified_text", doubled="use_double_wide_mlp"),
    Family("lfm2 lfm2_moe lfm3", adjusted=True),
    # Experts of the attention, not of the network.
    Family("jetmoe", r"self_attention", ignore=True),
    # Names too general elsewhere.
    Family("poolformer", r"\.output$", accept=True),
    Family("mobilevitv2", r"\.ffn$", accept=True),
)


def family_of(scope: Scope, path: str) -> Family:
    """What the rows that apply to a layer say together; where two say something, the later one counts."""
    merged: dict[str, object] = {}
    named = frozenset(scope.model_types)
    for row in FAMILIES:
        if named.isdisjoint(row.models.split()) or not re.search(row.where, path):
            continue
        if row.when is not None and bool(scope.value(row.when[0])) != row.when[1]:
            continue
        for field, value in row._asdict().items():
            if field not in ("models", "where", "when") and value != Family._field_defaults[field]:
                merged[field] = value
    return Family("", **merged)  # type: ignore[arg-type]
