"""The numbers of both GELUs, and the exact one in place on a tile of NumPy memory.

gelu(x) = max(x, 0) - |x| Q(|x|), where Q is the upper tail of the normal distribution and, with s = |x| / 2,
|x| Q(|x|) = exp(-2 s**2) N(s) / D(s). NumPy has no erf, and a ufunc call for each step of Horner's scheme would
cost more than the exponential: the sums are one matrix product of the coefficients with the powers of s.
"""

import math

import numpy as np

from portable_ffn._arrays.typing import Array
from portable_ffn._native.numpy.workspace import Work

TWICE_SQRT_2_OVER_PI = 2 * math.sqrt(2 / math.pi)
CUBIC = 0.044715  # Hendrycks and Gimpel 2016, the tanh form
# By ci/gelu_tail.py. Relative to |x| Q(|x|) the ratio errs by at most 6.1e-8 (1 + x**2 / 2) in float32 up to
# |x| = 15, 1.8e-16 (1 + x**2 / 2) in float64 up to 39: less than the rounding of x**2 / 2 costs.
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
POWERS = 5
# A row a sum: float32 N and D; float64 N and D below s**5, then N and D from there on.
SUMS = {
    np.dtype("float32"): np.array([N32, D32], "float32"),
    np.dtype("float64"): np.array([N64[:POWERS], D64[:POWERS], N64[POWERS:], D64[POWERS:]]),
}
# The s from which exp(-2 s**2) is 0.
LAST = {np.dtype("float32"): 7.5, np.dtype("float64"): 19.5}


def gelu(h: Array, work: Work) -> None:
    """h times the normal distribution function; the tail keeps its relative accuracy down to where it vanishes."""
    coefficients = SUMS[h.dtype]
    tiles = work.tiles(POWERS + len(coefficients), h.size)
    powers, sums = tiles[:POWERS], tiles[POWERS:]
    one, s, s2, s3, s4 = powers
    np.multiply(h, 0.5, out=h)
    np.absolute(h, out=s)
    np.add(h, s, out=h)  # max(x, 0), but NaN at -inf
    np.minimum(s, work.full(LAST[h.dtype], h.size), out=s)
    one.fill(1.0)
    np.multiply(s, s, out=s2)
    np.multiply(s2, s, out=s3)
    np.multiply(s2, s2, out=s4)
    np.matmul(coefficients, powers, out=sums)
    if len(sums) == 4:
        s5 = np.multiply(s4, s, out=s4)
        np.multiply(sums[2:], s5, out=sums[2:])
        np.add(sums[:2], sums[2:], out=sums[:2])
    tail = np.divide(sums[0], sums[1], out=s)
    np.multiply(s2, -2.0, out=s2)
    np.exp(s2, out=s2)
    np.multiply(tail, s2, out=tail)
    np.subtract(h, tail, out=h)
