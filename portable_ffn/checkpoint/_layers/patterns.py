"""The names under which feed-forward layers are written: one literal table, most telling names first.

A row is the names of the matrices relative to the path that holds them. W1 is the activated branch. Where one
matrix holds both branches, W1 names it and the shapes say so. Sources: the on-disk names of the model families
that were surveyed, Flax's and Megatron's own names, and llama.cpp's for GGUF.
"""

from typing import NamedTuple


class Pattern(NamedTuple):
    """Names of one feed-forward network's matrices.

    `sure` says that only (out, in) matrices are ever written under these names (given `.weight`), square or not.
    `generic` says that other things are called so too: such a pair counts only where its path says that it is a
    feed-forward network, the family's row does, or, with `layer`, where it stands in a numbered layer itself.
    With `rare` it counts only where the family's row says so: elsewhere something is missing beside it.
    `order` is where a surveyed family has the gate in a fused matrix of this name.
    `raw` says that these are tensors' own names, and W_in's bias is b_in, mlp1_weight's mlp1_bias.
    """

    W1: str
    W2: str
    V: str | None = None
    sure: bool = False
    generic: bool = False
    layer: bool = False
    rare: bool = False
    order: str = "first"
    raw: bool = False


PATTERNS = (
    # gated, two matrices
    Pattern("gate_proj", "down_proj", V="up_proj", sure=True),
    Pattern("gate_proj.linear", "down_proj.linear", V="up_proj.linear", sure=True),
    Pattern("linear_gate", "down_proj", V="up_proj"),
    Pattern("w1", "w2", V="w3"),
    Pattern("w1", "w2", V="v1"),
    Pattern("wi_0", "wo", V="wi_1"),
    Pattern("w_in.w_0", "w_out", V="w_in.w_1"),
    Pattern("c_fc_0", "c_proj", V="c_fc_1"),
    Pattern("fc12", "fc2", V="fc11"),
    Pattern("fc1", "fc2", V="fc3"),
    Pattern("proj_up_gate", "proj_down", V="proj_up"),
    Pattern("linear", "linear_1", V="linear_v"),
    Pattern("ffn_gate", "ffn_down", V="ffn_up", sure=True),
    Pattern("ffn_gate_shexp", "ffn_down_shexp", V="ffn_up_shexp", sure=True),
    Pattern("W1", "W2", V="V"),
    # timm's SwiGLU, Qwen's first models (the second matrix is the activated one), AuraFlow, TransformerLens.
    Pattern("fc1_g", "fc2", V="fc1_x"),
    Pattern("w2", "c_proj", V="w1"),
    Pattern("linear_1", "out_projection", V="linear_2"),
    Pattern("W_gate", "W_out", V="W_in", raw=True),
    # one matrix that may hold both branches, or plain
    Pattern("gate_up_proj", "down_proj"),
    Pattern("up_gate_proj", "down_proj", order="second"),
    Pattern("proj_up_gate_z", "proj_down"),
    Pattern("w12", "w3"),
    Pattern("w13_dn", "w2_md", order="interleaved"),
    Pattern("ff_proj", "ff_out", order="second"),
    Pattern("weights_in", "weights_out"),
    Pattern("input_linear", "output_linear", generic=True),
    Pattern("Wi", "Wo"),
    # dense
    Pattern("intermediate.dense", "output.dense", sure=True),
    Pattern("intermediate_query.dense", "output_query.dense", sure=True),
    Pattern("layout_intermediate.dense", "layout_output.dense", sure=True),
    Pattern("lang_inter.dense", "lang_output.dense", sure=True),
    Pattern("visn_inter.dense", "visn_output.dense", sure=True),
    Pattern("intermediate_dense", "output_dense"),
    Pattern("intermediate.conv1d", "output.conv1d"),
    Pattern("dense.dense", "output.dense"),
    Pattern("intermediate", "output", generic=True),
    Pattern("fc1", "fc2"),
    Pattern("Dense_0", "Dense_1", generic=True),
    Pattern("fc1.proj", "fc2"),
    Pattern("fc0", "fc1"),
    Pattern("ff0", "ff1"),
    Pattern("ffn", "ffn_output"),
    Pattern("lin1", "lin2"),
    Pattern("linear1", "linear2"),
    Pattern("linear_1", "linear_2", generic=True),
    Pattern("linear_fc1", "linear_fc2"),
    Pattern("linear_up.linear", "linear_down.linear"),
    Pattern("linear_left", "linear_right", generic=True),
    Pattern("layer_1", "layer_2", generic=True),
    Pattern("ffw_layer_1", "ffw_layer_2"),
    Pattern("ffw_layer_1.linear", "ffw_layer_2.linear"),
    Pattern("c_fc", "c_proj"),
    Pattern("fc_in", "fc_out"),
    Pattern("fc", "c_proj"),
    Pattern("dense_h_to_4h", "dense_4h_to_h"),
    Pattern("dense1", "dense2", generic=True),
    Pattern("dense_in", "dense_out"),
    Pattern("up_proj", "down_proj"),
    Pattern("proj_up", "proj_down"),
    Pattern("ffn_up", "ffn_down", sure=True),
    Pattern("ffn_up_shexp", "ffn_down_shexp", sure=True),
    Pattern("wi", "wo"),
    Pattern("w1", "w2"),
    Pattern("W1", "W2"),
    Pattern("w_1", "w_2"),
    Pattern("mlp1", "mlp2"),
    Pattern("proj_1", "proj_2"),
    Pattern("linear_in", "linear_out"),
    Pattern("W_in", "W_out", raw=True),
    Pattern("W_down", "W_up", rare=True),
    Pattern("gate_proj", "down_proj", rare=True),
    Pattern("proj_in", "proj_out", generic=True),
    Pattern("in_proj", "out_proj", generic=True),
    Pattern("pwconv1", "pwconv2"),
    Pattern("pointwise_conv1", "pointwise_conv2", generic=True, layer=True),
    Pattern("point_wise_conv1", "point_wise_conv2"),
    Pattern("conv1.convolution", "conv2.convolution", generic=True),
    Pattern("conv1", "conv2", generic=True),
    Pattern("layers.0", "layers.1", generic=True),
    Pattern("net.0", "net.2", generic=True),
    Pattern("net.0", "net.3", generic=True),
    Pattern("net.0.proj", "net.2", generic=True),
    Pattern("0", "2", generic=True),
    Pattern("0", "3", generic=True),
)

# Experts that one tensor stacks along its first axis (or packs into one matrix): their own tensor names.
STACKED = (
    Pattern("gate_up_proj", "down_proj"),
    Pattern("gate_proj", "down_proj", V="up_proj"),
    Pattern("w13_weight", "w2_weight", order="interleaved"),
    Pattern("shared_w13_weight", "shared_w2_weight", order="interleaved"),
    Pattern("mlp1_weight", "mlp2_weight", order="interleaved", raw=True),
    Pattern("fc1.weight", "fc2.weight"),
    Pattern("input_linear.weight", "output_linear.weight"),
    Pattern("mlp.w1", "mlp.w2", V="mlp.v1"),
    Pattern("up_proj", "down_proj"),
    Pattern("gate_and_up_projs", "down_projs"),
    Pattern("gate_proj.weight", "down_proj.weight", V="up_proj.weight"),
    Pattern("ffn_gate_exps.weight", "ffn_down_exps.weight", V="ffn_up_exps.weight"),
    Pattern("ffn_gate_up_exps.weight", "ffn_down_exps.weight"),
    Pattern("ffn_up_exps.weight", "ffn_down_exps.weight"),
)
