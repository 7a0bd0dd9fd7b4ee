"""What a layer's hidden units do on some inputs: how many are active, and which memories are the strongest.

A feed-forward layer is a memory of d_ff values, the rows of W2, each taken with its coefficient, the hidden unit
(Geva et al. 2021, Transformer Feed-Forward Layers Are Key-Value Memories).
"""

from typing import Any, NamedTuple

import numpy as np

from portable_ffn.checkpoint._loaded.network import Network

# A unit counts as active where its coefficient is at least this share of the largest of its token.
THRESHOLD = 0.01


class Memory(NamedTuple):
    """One hidden unit: its mean coefficient (in magnitude), the length of its value, and how often it is active."""

    unit: int
    coefficient: float
    length: float
    active: float


class Statistics(NamedTuple):
    """Of one layer on some tokens; shares lie between 0 and 1."""

    tokens: int
    active: float
    zero: float
    memories: list[Memory]


def statistics(network: Network, x: np.ndarray[Any, Any], strongest: int = 5) -> Statistics:
    """The share of hidden units active for a token, and the memories that add most to the output.

    A memory's strength is its mean coefficient, in magnitude, times the length of its value.
    """
    a = np.abs(np.asarray(network.hidden(x), dtype=np.float64)).reshape(-1, network.weights.d_ff)
    largest = a.max(axis=-1, keepdims=True, initial=0.0)
    active = (a >= THRESHOLD * largest) & (a > 0)
    lengths = np.linalg.norm(np.asarray(network.weights.W2, dtype=np.float64), axis=-1)
    mean = a.mean(axis=0)
    order = np.argsort(-mean * lengths, kind="stable")[:strongest]
    memories = [Memory(int(i), float(mean[i]), float(lengths[i]), float(active[:, i].mean())) for i in order]
    return Statistics(len(a), float(active.mean()), float((a == 0).mean()), memories)
