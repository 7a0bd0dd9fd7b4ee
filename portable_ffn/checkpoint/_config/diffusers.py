"""The config of a diffusion model in diffusers' words: `act_fn` is that of the residual blocks, not of the networks.

Source: BasicTransformerBlock and GEGLU of diffusers 0.42: blocks of UNets and ControlNets have activation_fn="geglu"
whatever their config says, hidden * gelu(gate) with the gate as the second half of the fused matrix.
"""

from collections.abc import Mapping
from typing import Any

MODEL_TYPE = "diffusers_unet"


def diffusers_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The config without what is said of other parts, and with a model type for the classes that are known."""
    name = config.get("_class_name")
    if not isinstance(name, str) or "model_type" in config:
        return config
    said = {key: value for key, value in config.items() if key != "act_fn"}
    return {**said, "model_type": MODEL_TYPE} if name.startswith(("UNet", "ControlNet")) else said
