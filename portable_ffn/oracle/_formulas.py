"""The activations by name: one literal table of scalar formulas, derivatives, and what their evaluation may lose."""

import math
from collections.abc import Callable
from typing import NamedTuple

from portable_ffn.oracle._scalars import (
    LAPLACE_MU,
    LAPLACE_SIGMA,
    QUICK,
    SELU_ALPHA,
    SELU_SCALE,
    beyond,
    clamp,
    elu,
    elu_slope,
    gelu,
    gelu_slope,
    gelu_tanh,
    gelu_tanh_slope,
    hard_sigmoid,
    hard_swish_slope,
    laplace,
    mish,
    mish_slope,
    normal_pdf,
    scaled_silu,
    scaled_silu_slope,
    sech2,
    sigmoid,
    sigmoid_slope,
    softplus,
    sqrt_softplus,
    sqrt_softplus_slope,
    within,
)

Scalar = Callable[[float], float]


class Formula(NamedTuple):
    """An activation, its derivative, and what a sound evaluation of it in floating point may lose.

    The loss is u (relative |act(h)| + |h act'(h)| + lost |h|**power) + eta**underflow (1 + |h|), eta being the size at
    which results underflow; nothing where relative and lost are 0, as for relu, relu6 and identity. `relative` counts
    the roundings of a product form; `lost` is for a sum with 1 or 1/2 that cancels, as in h (1 + erf h) / 2 below zero.
    The numbers are the worst of PyTorch 2.13, JAX 0.10 and MLX over all dtypes, rounded up: the float32 erf of
    PyTorch's GELU loses 4.4 u |h|, the float64 tanh of XLA 7 u.
    """

    value: Scalar
    derivative: Scalar
    relative: float = 0.0
    lost: float = 0.0
    power: int = 0
    underflow: float = 1.0


FORMULAS: dict[str, Formula] = {
    "relu": Formula(lambda x: max(x, 0.0), lambda x: beyond(x, 1.0, 0.0)),  # Nair and Hinton 2010
    "relu2": Formula(lambda x: max(x, 0.0) * max(x, 0.0), lambda x: 2.0 * max(x, 0.0), 1),  # So et al. 2021
    "relu6": Formula(lambda x: clamp(x, 0.0, 6.0), lambda x: within(x, 0.0, 6.0)),  # Krizhevsky 2010
    "gelu": Formula(gelu, gelu_slope, 4, 5, 1),
    "gelu_tanh": Formula(gelu_tanh, gelu_tanh_slope, 4, 4, 1),
    "quick_gelu": Formula(lambda x: scaled_silu(x, QUICK), lambda x: scaled_silu_slope(x, QUICK), 3, 1, 1),
    "gelu_10": Formula(
        lambda x: min(gelu(x), 10.0), lambda x: within(gelu(x), -math.inf, 10.0, gelu_slope(x)), 4, 5, 1
    ),
    "silu": Formula(lambda x: scaled_silu(x, 1.0), lambda x: scaled_silu_slope(x, 1.0), 3, 1, 1),
    "sigmoid": Formula(sigmoid, sigmoid_slope, 3, 1, 0),
    "tanh": Formula(math.tanh, sech2, 8),
    "identity": Formula(lambda x: x, lambda x: 1.0),
    "hard_swish": Formula(lambda x: x * hard_sigmoid(x), hard_swish_slope, 3, 1, 1),
    "hard_sigmoid": Formula(hard_sigmoid, lambda x: within(x, -3.0, 3.0, 1.0 / 6.0), 3, 1, 0),
    "mish": Formula(mish, mish_slope, 4, 2, 1),
    "leaky_relu": Formula(lambda x: x if x > 0.0 else 0.01 * x, lambda x: beyond(x, 1.0, 0.01), 1),
    "elu": Formula(elu, elu_slope, 3, 1, 0),
    "selu": Formula(
        lambda x: SELU_SCALE * elu(x, SELU_ALPHA), lambda x: SELU_SCALE * elu_slope(x, SELU_ALPHA), 4, 2, 0
    ),
    "softplus": Formula(softplus, sigmoid, 4),
    "sqrt_softplus": Formula(sqrt_softplus, sqrt_softplus_slope, 4, underflow=0.5),
    "laplace": Formula(laplace, lambda x: normal_pdf((x - LAPLACE_MU) / LAPLACE_SIGMA) / LAPLACE_SIGMA, 4, 4, 0),
    "softsign": Formula(lambda x: x / (1.0 + abs(x)), lambda x: 1.0 / (1.0 + abs(x)) / (1.0 + abs(x)), 3),
}

ACTIVATIONS: dict[str, Scalar] = {name: row.value for name, row in FORMULAS.items()}
DERIVATIVES: dict[str, Scalar] = {name: row.derivative for name, row in FORMULAS.items()}
