"""What a few families need to be built at all, and the variants of others whose networks a default config hasn't."""

from typing import Any

# Of the default config: what it leaves open, or would make too large.
NEEDED: dict[str, dict[str, Any]] = {
    "autoformer": {"prediction_length": 8, "context_length": 16},
    "informer": {"prediction_length": 8, "context_length": 16},
    "time_series_transformer": {"prediction_length": 8, "context_length": 16},
    "aya_vision": {"vision_config": {"model_type": "siglip_vision_model", "num_attention_heads": 16}},
    "chameleon": {"vocabulary_map": {"<image>": 8711}},
    "emu3": {"vocabulary_map": {"<image>": 8711}},
    "dots1": {"n_routed_experts": 16, "n_shared_experts": 1},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "ministral": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 8},
    "hunyuan_v1_dense": {"head_dim": 128, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
    "hunyuan_v1_moe": {"head_dim": 128},
    "hunyuan_vl": {"text_config": {"head_dim": 128}},
    "hunyuan_vl_text": {"head_dim": 128},
    "moonshine_streaming": {"num_key_value_heads": 8, "num_attention_heads": 8},
    "gemma4_assistant": {"text_config": {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}},
    "lfm2_moe": {"num_hidden_layers": 4, "layer_types": ["conv", "conv", "full_attention", "conv"]},
    "cohere_compass_text": {
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": 1e4} for kind in ("full_attention", "sliding_attention")
        }
    },
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense"] + ["sparse"] * 3, "num_hidden_layers": 4},
    "dbrx": {"attn_config": {"rope_theta": 1e4}},
    "diffusion_gemma_text": {"moe_intermediate_size": 16, "num_experts": 4, "top_k_experts": 2},
    "granite4_vision": {"deepstack_layer_map": [[-1, 0]], "downsample_rate": "4/8", "spatial_target_layers": [1]},
    "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": 64},
    "videomae": {"num_frames": 2, "image_size": 32},
}
NEEDED["Qwen3OmniMoeTalkerConfig"] = {
    "text_config": NEEDED["qwen3_omni_moe_talker_text"],
    "spatial_merge_size": 2,
}
NEEDED["qwen4_exp_text"] = {
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 128,
    "indexer_budget": 64,
    "indexer_compress_ratio": 4,
}
NEEDED["qwen4_exp"] = {"text_config": NEEDED["qwen4_exp_text"]}
NEEDED["qwen3_omni_moe"] = {"talker_config": NEEDED["Qwen3OmniMoeTalkerConfig"]}
NEEDED["cohere_compass"] = {"text_config": NEEDED["cohere_compass_text"]}
NEEDED["diffusion_gemma"] = {"text_config": NEEDED["diffusion_gemma_text"]}
NEEDED["deepseek_ocr2"] = {"text_config": NEEDED["deepseek_ocr2_text"]}
# Further variants.
VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "idefics": ({"use_resampler": True},),
    "gemma4": ({"text_config": {"enable_moe_block": True, **NEEDED["diffusion_gemma_text"]}},),
    "gemma4_text": ({"enable_moe_block": True, **NEEDED["diffusion_gemma_text"]},),
}
VARIANTS["cohere2_moe"] = ({"num_shared_experts": 1},)
VARIANTS["deepseek_v2"] = ({"first_k_dense_replace": 1},)
VARIANTS["gemma3n_text"] = ({"num_hidden_layers": 15},)
# Flags that may change which network is there, or which activation it has.
FLAGS = r"swiglu|glu|gated|moe|mlp|ffn|shared|pre_norm|dense|adapter|wide|expert|feed"
# Backbones that take the place of any other, to see under which path a family keeps its own.
BACKBONES = (
    {"model_type": "swin", "out_features": ["stage1", "stage2", "stage3", "stage4"]},
    {"model_type": "swin", "out_features": ["stage2", "stage3", "stage4"]},
    {"model_type": "dinov2", "out_features": ["stage3", "stage6", "stage9", "stage12"]},
    {"model_type": "swin"},
    {"model_type": "vitdet"},
)
# Where the code looks a name up in a table of its own, no probe can be put: read in the code.
READ_IN_THE_CODE = {"openai-gpt": ["", "afn"], "ibert": ["", "=gelu"]}
# Numbers inside networks, which rows of families.py read.
NUMBERS = (
    "swiglu_limit",
    "swiglu_alpha",
    "swiglu_limits",
    "swiglu_limits_shared",
    "layer_norm_eps",
    "layer_norm_epsilon",
    "rms_norm_eps",
    "post_norm_eps",
    "normalization_type",
    "mlp_gate_softcap",
    "mlp_up_softcap",
    "mlp_multipliers",
    "mlp_bias",
    "conf_residual_weight",
    "residual_weight",
    "intermediate_groups",
    "output_groups",
    "num_groups",
    "gelu_activation",
    "pre_norm",
    "hidden_size",
    "use_swiglu_ffn",
    "use_double_wide_mlp",
    "block_auto_adjust_ff_dim",
    "block_ffn_dim_multiplier",
    "block_multiple_of",
)
