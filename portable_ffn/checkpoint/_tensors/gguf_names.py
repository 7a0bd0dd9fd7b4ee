"""The names of old GGUF files, as newer ones have them.

Experts were tensors of their own (blk.0.ffn_gate.3.weight) before they were stacked; the image encoders of old mmproj
files have ffn_up and ffn_down the wrong way round, which their width, clip.vision.embedding_length, tells. Sources:
llama.cpp (src/llama-arch.cpp: LLM_TENSOR_FFN_GATE_EXP and the like; tools/mtmd/clip.cpp: is_ffn_swapped).
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from portable_ffn.checkpoint._files.tensor import TensorInfo

_EXPERT: Final = re.compile(r"(.*\.)?(ffn_(?:gate|down|up))\.(\d+)\.(weight|bias)")
_SWAPPED: Final = re.compile(r"([va]\.blk\.\d+\.)ffn_(up|down)(\.(?:weight|bias))")
_WIDTHS: Final = {"v": "clip.vision.embedding_length", "a": "clip.audio.embedding_length"}


def renamed(tensors: Mapping[str, TensorInfo], metadata: Mapping[str, Any]) -> dict[str, str]:
    """The new names of the tensors that have old ones."""
    found = {}
    for name in tensors:
        if expert := _EXPERT.fullmatch(name):
            parent, matrix, number, leaf = expert.groups()
            new = f"{parent or ''}experts.{number}.{matrix}.{leaf}"
        elif (swapped := _SWAPPED.fullmatch(name)) and _is_swapped(swapped[1], tensors, metadata):
            new = f"{swapped[1]}ffn_{'down' if swapped[2] == 'up' else 'up'}{swapped[3]}"
        else:
            continue
        found[name] = new
    return found


def _is_swapped(block: str, tensors: Mapping[str, TensorInfo], metadata: Mapping[str, Any]) -> bool:
    """Whether the matrix called down takes what the model's width is, so that it is the first."""
    width = metadata.get(_WIDTHS[block[0]])
    down, up = (tensors.get(f"{block}ffn_{name}.weight") for name in ("down", "up"))
    return (
        down is not None
        and up is not None
        and len(down.shape) == len(up.shape) == 2
        and down.shape[1] == width
        and up.shape[1] != width
    )
