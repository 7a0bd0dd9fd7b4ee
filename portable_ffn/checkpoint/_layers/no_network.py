"""Pairs of matrices that are named as a network's are and are none: something stands between, or the result is a gate.

gMLP has a spatial gating unit between its matrices, MambaOut and ConvFormer a convolution over the neighbours, and
squeeze-and-excitation multiplies what passes by with its result. What lies between or beside the matrices tells.
"""

from collections.abc import Mapping, Sequence

from portable_ffn.checkpoint._layers.candidates import Candidate, Info, beside, trimmed
from portable_ffn.checkpoint._layers.words import GATES


def stands_between(candidate: Candidate, tensors: Mapping[str, Info], names: Sequence[str]) -> str | None:
    """The tensor that shows that a pair alone is no feed-forward network; None where there is none."""
    if candidate.stacked or candidate.V is not None or any(key not in tensors for key in (candidate.W1, candidate.W2)):
        return None
    whole = tensors[candidate.W1].shape
    w1, w2 = (trimmed(tensors[key].shape) for key in (candidate.W1, candidate.W2))
    if len(w1) != 2 or len(w2) != 2:
        return None
    # As torch's Linear lies: (d_ff, d_model) and (d_model, d_ff).
    fits, fused = w1 == w2[::-1], w1[0] == 2 * w2[1] and w1[1] == w2[0]
    if fits and w1[0] < w1[1] and (len(whole) > 2 or not GATES.isdisjoint(candidate.parent.split("."))):
        return candidate.W2
    start = len(candidate.parent) + 1 if candidate.parent else 0
    for name in beside(names, candidate.parent):
        shape = tensors[name].shape
        first = name[start:].split(".")[0]
        if len(shape) > 2 and shape[1] == 1 and max(shape[2:]) > 1:
            # A convolution of each channel by itself: of the hidden ones, or of some of them beside a gate.
            if shape[0] == w1[0] != w1[1] or fused:
                return name
        elif fused and first == "gate" and len(shape) >= 2 and shape[0] == shape[1] and name.endswith("proj.weight"):
            return name
    return None
