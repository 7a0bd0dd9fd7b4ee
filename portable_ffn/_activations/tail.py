"""The upper tail of the normal distribution, which the standard has no function for, and every constant of the GELUs.

Q(t) = erfc(t / sqrt(2)) / 2 for t >= 0, right relative to its own size all the way to where it vanishes: an
exact GELU by 0.5 x (1 + erf) loses its negative tail to cancellation (0.57 of the value at -5.5 in float32).
With s = t / 2, t Q(t) = exp(-2 s**2) N(s) / D(s). This file holds numbers and needs no library.
"""

import math

from portable_ffn._arrays.dtype import dtype_name
from portable_ffn._arrays.typing import Array, Namespace

CUBIC = 0.044715  # Hendrycks and Gimpel 2016, the tanh form of GELU
TWICE_SQRT_2_OVER_PI = 2 * math.sqrt(2 / math.pi)
ONE_OVER_SQRT_2PI = 1 / math.sqrt(2 * math.pi)
# By ci/gelu_tail.py. The ratio's relative error is at most 6.1e-8 (1 + t**2 / 2) in float32 up to t = 15 and
# 1.8e-16 (1 + t**2 / 2) in float64 up to 39: less than the rounding of t**2 / 2 costs.
N32 = (0.0, 0.9999999390882643, 1.372638253242282, 0.870307080086298, 0.23238650311985873)
D32 = (1.0, 2.9683996742204397, 3.6073432142180355, 2.178547544574434, 0.5826819307047415)
N64 = (
    0.0,
    1.0000000000000002,
    2.797764873558465,
    3.872594412778454,
    3.366052744570222,
    1.9868486645797578,
    0.8121963099275783,
    0.22478434582831575,
    0.03874071513639622,
    0.0032253480075772794,
)
D64 = (
    1.0,
    4.393533995164265,
    8.883660296982208,
    10.88294770525237,
    8.934287814872825,
    5.120141653866073,
    2.060151486149444,
    0.5654719788095238,
    0.09710857209238168,
    0.008084748509375494,
)
RATIOS = {"float32": (N32, D32), "float64": (N64, D64)}
# The s from which exp(-2 s**2) is 0.
LAST = {"float32": 7.5, "float64": 19.5}


def upper_tail(t: Array, xp: Namespace) -> Array:
    """Q(t) for t >= 0 in float32 or float64; differentiable, and 0 with a finite derivative for large t."""
    e, m = tail_factors(t, xp)
    return e * m


def tail_factors(t: Array, xp: Namespace) -> tuple[Array, Array]:
    """exp(-t**2 / 2), and Q(t) over it: apart, since libraries that flush subnormals lose their product first."""
    above, below = RATIOS[dtype_name(t.dtype)]
    t = xp.where(t > 2 * LAST["float64"], 2 * LAST["float64"], t)
    s = 0.5 * t
    # N(s) = s M(s), and t = 2 s.
    return xp.exp(-0.5 * t * t), 0.5 * horner(above[1:], s) / horner(below, s)


def horner(coefficients: tuple[float, ...], s: Array) -> Array:
    """A polynomial, the constant first."""
    p = coefficients[-1] * s + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        p = p * s + coefficient
    return p
