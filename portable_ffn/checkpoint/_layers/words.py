"""Words of paths: which say that a network lies there, and which that something beside it is none of its own."""

# Last components of a path that say that what lies under it is a feed-forward network and nothing else.
NETWORK_WORDS = frozenset(
    {
        "mlp",
        "mlps",
        "ffn",
        "ffns",
        "ff",
        "ff1",
        "ff2",
        "ffn1",
        "ffn2",
        "feed_forward",
        "feed_forward1",
        "feed_forward2",
        "feedforward",
        "feed_forwards",
        "DenseReluDense",
        "mlp_block",
        "shared_mlp",
        "block_sparse_moe",
        "expert",
        "experts",
        "switch_mlp",
        "shared_expert",
        "shared_experts",
        "share_expert",
        "self_mlp",
        "laurel",
        "linear",
        "moe",
        "conv_feed_forward",
    }
)

# Components whose pair of matrices gives factors for what passes by, as squeeze-and-excitation does.
GATES = frozenset(
    {"se", "se_block", "se_module", "se_layer", "squeeze_excite", "squeeze_excitation", "channel_attention"}
)

# Components after which a tensor beside W1 and W2 lies between them, so that the pair alone is not the network.
BETWEEN = frozenset({"grn", "ffn_layernorm", "ffn_sub_norm"})

# Components of paths that join towers: what lies under them maps one width to another and need be no layer.
BRIDGES = ("merger", "projector", "connector", "aligner", "resampler", "head", "embed")

# What stands in the same path and is no part of the network itself: routers, and the normalisation of a residual
# branch that BERT's line keeps beside the second matrix.
OUTSIDE = frozenset(
    {
        "router",
        "gate",
        "gating",
        "wg",
        "expert_bias",
        "e_score_correction_bias",
        "shared_expert_gate",
        "experts",
        "shared_expert",
        "shared_experts",
        "share_expert",
        "shared_mlp",
        "moe_statics",
        "global_scale",
        "fc1_latent_proj",
        "fc2_latent_proj",
        "pre_expert_norm",
        "post_expert_norm",
        "pre_expert_proj",
        "post_expert_proj",
    }
)

# The activations' own weights lie under one of these.
ACTIVATION_MODULES = (
    "act",
    "act_fn",
    "activation_fn",
    "activation",
    "intermediate_act_fn",
    "activation_function",
    "gelu_impl",
)
