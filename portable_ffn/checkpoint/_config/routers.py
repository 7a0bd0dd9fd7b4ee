"""How each family's router chooses and weights its experts: the one literal table.

A row gives the config's keys and what the family's own config class has where the file is silent. Source: the routers
of transformers 5.24 (`models/NAME/modeling_NAME.py`, classes ...TopkRouter, ...TopKRouter, ...Gate and the blocks that
call them; `configuration_NAME.py` for the defaults), compared numerically with what their modules return.
"""

from portable_ffn.checkpoint._config.router import Groups, Key, RouterRow
from portable_ffn.checkpoint._config.scope import Scope

_NORMED = Key("norm_topk_prob moe_renormalize", True)
_UNNORMED = Key("norm_topk_prob", False)
_SCALED = Key("routed_scaling_factor", 1.0)
_ONE_GROUP = Groups(Key("n_group num_expert_group", 1), Key("topk_group", 1))
_EIGHT_GROUPS = Groups(Key("n_group num_expert_group", 8), Key("topk_group", 4))
_DEEPSEEK_V3 = RouterRow(
    "deepseek_v3 deepseek_v32 bailing_hybrid",
    Key("num_experts_per_tok num_experts_per_token", 8),
    "sigmoid",
    _NORMED,
    1e-20,
    Key("routed_scaling_factor", 2.5),
    _EIGHT_GROUPS,
    selects=True,
)

ROUTERS = (
    # softmax over all experts, the chosen ones renormalised
    RouterRow("mixtral minimax", Key("num_experts_per_tok", 2)),
    RouterRow("qwen3_vl_moe qwen3_vl_moe_text", Key("num_experts_per_tok", 4)),
    RouterRow("qwen3_5_moe qwen3_5_moe_text", Key("num_experts_per_tok", 8)),
    RouterRow("qwen3_next qwen4_exp qwen4_exp_text", Key("num_experts_per_tok", 10), normalise=_NORMED),
    RouterRow("mellum", Key("num_experts_per_tok", 8), normalise=_NORMED),
    RouterRow("lara_mini", Key("num_experts_per_tok", 4), normalise=_NORMED),
    RouterRow("qwen3_omni_moe_text", Key("num_experts_per_tok", 8), normalise=_NORMED),
    RouterRow("qwen3_omni_moe_talker_text", Key("num_experts_per_tok", 8), normalise=_UNNORMED),
    RouterRow("hunyuan_v1_moe", Key("moe_topk num_experts_per_tok", 1)),
    RouterRow("ernie4_5_moe", Key("moe_k num_experts_per_tok", 6), selects=True),
    RouterRow("dbrx", Key("moe_top_k", 1), normalise=Key("moe_normalize_expert_weights", 1.0)),
    # softmax over all experts, as it is
    RouterRow("qwen2_moe", Key("num_experts_per_tok", 4), normalise=_UNNORMED),
    RouterRow("qwen3_moe olmoe", Key("num_experts_per_tok", 8), normalise=_UNNORMED),
    RouterRow("flex_olmo", Key("num_experts_per_tok", 5), normalise=_UNNORMED),
    RouterRow("jamba", Key("num_experts_per_tok", 2), normalise=False),
    RouterRow("switch_transformers", Key("", 1), normalise=False),
    RouterRow(
        "longcat_flash",
        Key("moe_topk num_experts_per_tok", 12),
        normalise=False,
        scale=Key("routed_scaling_factor", 6.0),
        ignores_bias=True,
        selects=True,
    ),
    RouterRow(
        "deepseek_v2 deepseek_ocr2 deepseek_ocr2_text unlimited_ocr unlimited_ocr_text",
        Key("num_experts_per_tok", 6),
        normalise=False,
        scale=_SCALED,
        groups=Groups(Key("n_group", 1), Key("topk_group", 1), "max", "topk_method"),
    ),
    # softmax with groups
    RouterRow(
        "mistral4", Key("num_experts_per_tok", 4), normalise=_NORMED, epsilon=1e-20, scale=_SCALED, groups=_ONE_GROUP
    ),
    RouterRow(
        "mistral_large4 mistral_large4_text",
        Key("num_experts_per_tok", 4),
        epsilon=1e-20,
        scale=_SCALED,
        groups=_ONE_GROUP,
    ),
    # softmax of the chosen logits
    RouterRow(
        "granitemoe granitemoe_swa granitemoehybrid granitemoeshared jetmoe",
        Key("num_experts_per_tok", 2),
        "softmax_of_chosen",
        False,
    ),
    RouterRow("gpt_oss openai_privacy_filter", Key("num_experts_per_tok", 4), "softmax_of_chosen", False),
    RouterRow("aria aria_text", Key("moe_topk", 2), "softmax_of_chosen", False),
    RouterRow(
        "cohere2_moe",
        Key("num_experts_per_tok", 2),
        Key("expert_selection_fn", None),
        _NORMED,
        average="shared_expert_combination_strategy",
    ),
    # sigmoid and a bias that selects
    _DEEPSEEK_V3,
    # A.X-K2 puts 0, and not -inf, in place of what lies outside the best groups, which a bias may fall below.
    _DEEPSEEK_V3._replace(models="axk2", groups=Groups(Key("n_group", None), Key("topk_group", None), "refused")),
    _DEEPSEEK_V3._replace(models="beam"),
    _DEEPSEEK_V3._replace(models="axk1", after="post_mlp_layernorm"),
    _DEEPSEEK_V3._replace(models="exaone_moe glm5_next glm5_next_text glm_moe_dsa", groups=_ONE_GROUP),
    _DEEPSEEK_V3._replace(models="sarvam_mla sarvam_moe", groups=_ONE_GROUP),
    _DEEPSEEK_V3._replace(models="kimi_linear", scale=Key("routed_scaling_factor", 2.446), groups=_ONE_GROUP),
    _DEEPSEEK_V3._replace(
        models="hy_v4 hy_v4_vl hy_v4_vl_text", scale=Key("routed_scaling_factor", 2.827), groups=_ONE_GROUP
    ),
    _DEEPSEEK_V3._replace(
        models="glm4_moe_lite",
        top_k=Key("num_experts_per_tok", 4),
        scale=Key("routed_scaling_factor", 1.8),
        groups=_ONE_GROUP,
    ),
    _DEEPSEEK_V3._replace(
        models="glm4_moe glm4v_moe glm4v_moe_text dots3_note dots3_note_text mimo_v2_flash solar_open",
        scale=_SCALED,
        groups=_ONE_GROUP,
    ),
    _DEEPSEEK_V3._replace(
        models="dots1", top_k=Key("num_experts_per_tok"), normalise=_UNNORMED, scale=_SCALED, groups=_ONE_GROUP
    ),
    _DEEPSEEK_V3._replace(
        models="nemotron_h nemotron3_5_transcribe",
        top_k=Key("num_experts_per_tok", 2),
        scale=_SCALED,
        groups=_ONE_GROUP,
        latent=("fc1_latent_proj", "", "fc2_latent_proj"),
    ),
    RouterRow(
        "hy_v3",
        Key("num_experts_per_tok", 8),
        "sigmoid",
        True,
        1e-20,
        Key("router_scaling_factor", 2.826),
        selects=True,
    ),
    RouterRow(
        "dots3_note_vision_encoder",
        Key("num_experts_per_tok", 2),
        "sigmoid",
        True,
        1e-20,
        Key("router_scaling_factor", 1.0),
        selects=True,
    ),
    RouterRow("afmoe", Key("num_experts_per_tok", 6), "sigmoid", True, 1e-20, Key("route_scale", 1.0), selects=True),
    RouterRow(
        "inkling2 inkling2_text inkling2_loop inkling2_loop_text",
        Key("num_experts_per_tok", 8),
        Key("scoring_func", None),
        True,
        1e-20,
        Key("route_scale routed_scaling_factor", 8.0),
        selects=True,
    ),
    RouterRow("minimax_m2", Key("num_experts_per_tok", 8), "sigmoid", selects=True),
    RouterRow(
        "minimax_m3_vl minimax_m3_vl_text",
        Key("num_experts_per_tok", 4),
        "sigmoid",
        scale=Key("routed_scaling_factor", 2.0),
        selects=True,
    ),
    RouterRow(
        "step3p7 step3p5",
        Key("num_experts_per_tok moe_top_k", 8),
        "sigmoid",
        scale=Key("moe_router_scaling_factor", 1.0),
        selects=True,
    ),
    RouterRow("flint", Key("num_experts_per_tok", 6), "sigmoid", _NORMED),
    RouterRow("lfm2_moe", Key("num_experts_per_tok", 4), "sigmoid", _NORMED, 1e-6, _SCALED, selects=True),
    RouterRow(
        "laguna",
        Key("num_experts_per_tok", 8),
        "sigmoid",
        scale=Key("moe_routed_scaling_factor", 1.0),
        softcap="moe_router_logit_softcapping",
        selects=True,
    ),
    RouterRow(
        "muse_spark muse_spark_text",
        Key("num_experts_per_tok", 8),
        "sigmoid",
        True,
        1e-15,
        _SCALED,
        logits=Key("output_multiplier", 0.1767766952966369),
        latent=("pre_expert_proj", "pre_expert_norm", "post_expert_proj"),
        selects=True,
    ),
    RouterRow("kolibri1", Key("num_experts_per_tok", 6), "sigmoid_of_logits", _UNNORMED, selects=True),
    # others; of GGUF the metadata, or the architecture's graph, says all that there is to say (`gguf`)
    RouterRow("gguf", Key("num_experts_per_tok"), Key("scoring_func"), _UNNORMED, 0.0, _SCALED, _ONE_GROUP),
    RouterRow(
        "deepseek_v4",
        Key("num_experts_per_tok", 6),
        Key("scoring_func", None),
        True,
        1e-20,
        Key("routed_scaling_factor", 1.5),
        selects=True,
    ),
    RouterRow(
        "inkling inkling_text",
        Key("num_experts_per_tok", 6),
        "shared_sink",
        scale=Key("route_scale", 8.0),
        selects=True,
    ),
    RouterRow("llama4 llama4_text", Key("num_experts_per_tok", 1), "sigmoid", False, apply_to="input"),
    RouterRow("phimoe", Key("", 2), "sparsemixer", False, jitter=Key("router_jitter_noise", 0.01)),
)
_BY_TYPE = {model: row for row in ROUTERS for model in row.models.split()}


def row_of(scope: Scope) -> RouterRow | None:
    """The row of the innermost model type that has one."""
    return next((_BY_TYPE[model] for model in scope.model_types if model in _BY_TYPE), None)
