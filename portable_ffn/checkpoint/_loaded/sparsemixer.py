"""SparseMixer as PhiMoE evaluates it: two rounds of the largest logit, each with a softmax over those near to it.

Liu et al. 2024, GRIN: Gradient-Informed MoE; transformers 5.24, models/phimoe/modeling_phimoe.py.
"""

from typing import Any

from portable_ffn._arrays.library import namespace
from portable_ffn._arrays.typing import Array


def sparsemixer(logits: Array, jitter: float) -> tuple[Array, Array]:
    """The weights and indices of the two experts of each token, (..., 2)."""
    xp = namespace(logits)
    left, weights, indices = logits, [], []
    for _ in range(2):
        index = xp.expand_dims(xp.argmax(left, axis=-1), axis=-1)
        place = _place(logits, index, xp)
        top = xp.sum(xp.where(place, logits, 0.0), axis=-1, keepdims=True)
        size = xp.abs(logits)
        near = (top - left) / xp.where(size > top, size, top) <= 2 * jitter
        e = xp.where(near, xp.exp(xp.where(near, left - top, 0.0)), 0.0)
        weights.append(1 / xp.sum(e, axis=-1, keepdims=True))
        indices.append(index)
        left = xp.where(place, -xp.inf, left)
    return xp.concat(weights, axis=-1), xp.concat(indices, axis=-1)


def _place(logits: Array, index: Array, xp: Any) -> Array:
    """Where each token's index is, among all experts."""
    return xp.concat([index == e for e in range(logits.shape[-1])], axis=-1)
