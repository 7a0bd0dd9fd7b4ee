"""Activations made of the normal distribution: their values and derivatives."""

from portable_ffn._activations.piecewise import between, limited, minus_abs
from portable_ffn._activations.tail import ONE_OVER_SQRT_2PI, tail_factors, upper_tail
from portable_ffn._arrays.typing import Array, Namespace

LAPLACE_MU, LAPLACE_SIGMA = 0.707107, 0.282095  # Ma et al. 2022 (Mega), as published: six digits


def normal_cdf(h: Array, xp: Namespace) -> Array:
    """The standard normal distribution function."""
    tail = upper_tail(-minus_abs(h, xp), xp)
    return xp.where(h <= 0, tail, 1 - tail)


def normal_pdf(h: Array, xp: Namespace) -> Array:
    """The standard normal density."""
    near = limited(h, xp, -40.0, 40.0)
    return ONE_OVER_SQRT_2PI * xp.exp(-0.5 * near * near)


def gelu(h: Array, xp: Namespace) -> Array:
    e, m = tail_factors(-minus_abs(h, xp), xp)
    return xp.where(h <= 0, h * m * e, h - limited(h, xp, 0.0, 40.0) * m * e)


def d_gelu(h: Array, xp: Namespace) -> Array:
    return normal_cdf(h, xp) + limited(h, xp, -40.0, 40.0) * normal_pdf(h, xp)


def gelu_10(h: Array, xp: Namespace) -> Array:
    return limited(gelu(h, xp), xp, -10.0, 10.0)


def d_gelu_10(h: Array, xp: Namespace) -> Array:
    return d_gelu(h, xp) * between(gelu(h, xp), xp, -10.0, 10.0)


def laplace(h: Array, xp: Namespace) -> Array:
    return normal_cdf((h - LAPLACE_MU) / LAPLACE_SIGMA, xp)


def d_laplace(h: Array, xp: Namespace) -> Array:
    return normal_pdf((h - LAPLACE_MU) / LAPLACE_SIGMA, xp) / LAPLACE_SIGMA
