"""The numbers of inputs, each chosen to reach what goes wrong, from a seeded generator in float64."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from portable_ffn._network.weights import Weights
from portable_ffn.testing._backends.arrays import Float64

# log2 of the first number that is too large, IEEE 754-2019 table 3.5; bfloat16 has the exponents of binary32.
TOP = {"float64": 1024, "float32": 128, "bfloat16": 128, "float16": 16}


class Inputs(NamedTuple):
    """What a network is given: float64 numbers that the dtype in question holds."""

    x: Float64
    weights: Weights


class Wanted(NamedTuple):
    """What a case is built for."""

    random: np.random.Generator
    d_model: int
    d_ff: int
    gated: bool
    biases: bool
    dtype: str


def _uniform(wanted: Wanted, fan_in: int, *shape: int) -> Float64:
    """Uniform numbers of variance 1 / fan_in, so that outputs are of the size of inputs."""
    half = np.sqrt(3.0 / fan_in) if fan_in else 0.0
    return wanted.random.uniform(-half, half, shape)


def _weights(wanted: Wanted, d_model: int, d_ff: int) -> Weights:
    """Weights whose every number counts."""
    return Weights(
        W1=_uniform(wanted, d_model, d_model, d_ff),
        b1=_uniform(wanted, 1, d_ff),
        W2=_uniform(wanted, d_ff, d_ff, d_model),
        b2=_uniform(wanted, 1, d_model),
        V=_uniform(wanted, d_model, d_model, d_ff),
        c=_uniform(wanted, 1, d_ff),
    )


def ordinary(wanted: Wanted, *leading: int, scale: float = 1.0) -> Inputs:
    """Normal x times scale and weights of variance 1 / fan_in."""
    x = scale * wanted.random.standard_normal((*leading, wanted.d_model))
    return Inputs(x, _weights(wanted, wanted.d_model, wanted.d_ff))


def _probe(wanted: Wanted, h: Float64, shrink: float = 2.0**-7, b: float = 0.0) -> Inputs:
    """W1 = W2 = I, so that y is act(h) with no sum to hide in; gated, u = shrink h + 1."""
    # One shape for all probes: what compiles for a shape compiles once.
    width = 16
    padded = np.resize(h, (24, width))
    unit = np.eye(width)
    ones = np.ones(width)
    return Inputs(padded, Weights(unit, b * ones, unit, b * ones, shrink * unit, ones))


def curve(wanted: Wanted, end: float = 6.0) -> Inputs:
    """Where activations bend: 384 points of [-6, 6], 0 among them."""
    return _probe(wanted, np.linspace(-end, end, 385)[:-1])


def far(wanted: Wanted) -> Inputs:
    """To where an exp in the dtype overflows, and beyond."""
    end = 1.1 * TOP[wanted.dtype] * np.log(2.0)
    return _probe(wanted, np.linspace(-end, end, 385)[:-1])


def tails(wanted: Wanted) -> Inputs:
    """Where exp, erf and cubes over- and underflow, in half precision first."""
    far = np.array(
        [6.5, 8.0, 9.5, 12.0, 15.0, 18.0, 25.0, 41.0, 89.0, 104.0, 150.0, 257.0, 400.0, 711.0, 900.0, 1000.0]
    )
    return _probe(wanted, np.concatenate([far, -far, 1e-3 * far, -1e-3 * far]))


def near_overflow(wanted: Wanted) -> Inputs:
    """Hidden values just inside the range of the dtype: their squares are far outside."""
    top = 2.0 ** (TOP[wanted.dtype] - 1)
    h = top * np.array([0.8, -0.8, 0.4, -0.4, 0.01, -0.01, 2.0**-6, -(2.0**-6)])
    return _probe(wanted, h, shrink=2.0 ** (2 - TOP[wanted.dtype]))


def tiny(wanted: Wanted) -> Inputs:
    """Outputs of about 1e-6, which are not zeros."""
    x, weights = ordinary(wanted, 5)
    assert weights.b2 is not None
    return Inputs(x, weights._replace(W2=1e-6 * weights.W2, b2=1e-6 * weights.b2))


def biases_alone(wanted: Wanted) -> Inputs:
    """x = 0, so that the smallest bias shows: y = act(b1) + b2."""
    size = np.geomspace(1e-3, 1.0, 16)
    sign = np.where(np.arange(16) % 3 == 1, -1.0, 1.0)
    _, weights = _probe(wanted, np.zeros(16))
    return Inputs(np.zeros((2, 16)), weights._replace(b1=sign * size, b2=-sign[::-1] * size[::-1], c=1.0 + size))


def with_one(value: float) -> Callable[[Wanted], Inputs]:
    """One number of one position replaced: no other position may feel it."""

    def build(wanted: Wanted) -> Inputs:
        x, weights = ordinary(wanted, 5)
        x[1, -1] = value
        return Inputs(x, weights)

    return build


def long_first_sum(wanted: Wanted) -> Inputs:
    """4096 ones in a sum, where a narrow accumulator stands still: bfloat16 at 256, float16 at 2048."""
    n, few = 4096, 4
    first = np.ones((n, few))
    weights = Weights(first, np.full(few, 0.5), first.T / n, np.ones(n), first / n, np.ones(few))
    return Inputs(np.ones((2, n)), weights)


def long_second_sum(wanted: Wanted) -> Inputs:
    """1024 hidden units of one sign in a sum; they differ, so that the roundings of a sound sum are no bias."""
    n, few = 1024, 4
    first = wanted.random.uniform(0.5, 1.5, (few, n)) / few
    second = wanted.random.uniform(0.5, 1.5, (n, few))
    weights = Weights(first, np.full(n, 0.5), second, np.ones(few), first, np.ones(n))
    return Inputs(np.ones((2, few)), weights)


def sized(d_model: int, d_ff: int, *leading: int) -> Callable[[Wanted], Inputs]:
    """Sizes of its own."""
    return lambda wanted: ordinary(wanted._replace(d_model=d_model, d_ff=d_ff), *leading)
