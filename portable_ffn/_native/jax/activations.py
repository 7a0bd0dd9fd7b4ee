"""Activations as XLA computes them fastest, with derivatives to any order that are as quick."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from portable_ffn._activations.tail import CUBIC, LAST, ONE_OVER_SQRT_2PI, RATIOS, TWICE_SQRT_2_OVER_PI, horner
from portable_ffn._arrays.typing import Array

# Beyond it both forms of the GELU are 0 or the identity; a cube stays finite.
FAR = 40.0


def _tail(h: Array) -> tuple[Array, Array, Array]:
    """s = |h| / 2, held to where the tail vanishes, exp(-2 s**2), and |h| Q(|h|) over it."""
    above, below = RATIOS[h.dtype.name]
    s = jnp.minimum(0.5 * jnp.abs(h), LAST[h.dtype.name])
    return s, jnp.exp(-2.0 * s * s), horner(above, s) / horner(below, s)


@jax.custom_jvp
def gelu(h: Array) -> Array:
    """max(h, 0) - |h| Q(|h|); NaN at -inf."""
    _, e, ratio = _tail(h)
    half = 0.5 * h
    return (half + jnp.abs(half)) - ratio * e


@gelu.defjvp
def _gelu_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """The derivative is the distribution function plus h times the density."""
    (h,), (dh,) = primals, tangents
    return gelu(h), dh * (normal_cdf(h) + _near(h) * normal_pdf(h))


def normal_pdf(h: Array) -> Array:
    """The standard normal density."""
    near = _near(h)
    return ONE_OVER_SQRT_2PI * jnp.exp(-0.5 * near * near)


# A rule of its own, since |h| has no derivative at 0.
@jax.custom_jvp
def normal_cdf(h: Array) -> Array:
    """The standard normal distribution function."""
    above, below = RATIOS[h.dtype.name]
    s, e, _ = _tail(h)
    # N(s) = s M(s), and |h| = 2 s.
    tail = 0.5 * e * horner(above[1:], s) / horner(below, s)
    return jnp.where(h <= 0, tail, 1.0 - tail)


normal_cdf.defjvps(lambda dh, _, h: dh * normal_pdf(h))


def _near(h: Array) -> Array:
    """h held to where it decides anything; by selection, which cuts what is not finite off the way back."""
    return jnp.where(h <= -FAR, -FAR, jnp.where(h >= FAR, FAR, h))


def relu(h: Array) -> Array:
    """max(h, 0), of slope 0 at 0 and NaN passed on."""
    return jnp.where(h <= 0, 0.0, h)


def gelu_tanh(h: Array) -> Array:
    """h s(2 u), since (1 + tanh(u)) / 2 = s(2 u)."""
    near = _near(h)
    return h * jax.lax.logistic(TWICE_SQRT_2_OVER_PI * near * (1.0 + CUBIC * near * near))


# An activation without a row goes by its own formula.
ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
    "relu": relu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "quick_gelu": lambda h: h * jax.lax.logistic(1.702 * h),
    "silu": lambda h: h * jax.lax.logistic(h),
}
