"""Activations made of comparisons, products and sums: their values and derivatives.

A formula takes an array in float32 or float64 and the namespace. Comparisons are written `h <= 0`, so that NaN takes
the branch of h itself and passes on, and so that automatic differentiation finds the left derivative at a corner.
"""

from portable_ffn._arrays.typing import Array, Namespace


def minus_abs(h: Array, xp: Namespace) -> Array:
    """-|h|, with slope 1 at 0."""
    return xp.where(h <= 0, h, -h)


def step(h: Array, xp: Namespace, low: float = 0.0, high: float = 1.0) -> Array:
    """`low` up to and including 0, `high` above, NaN passed on."""
    return xp.where(h <= 0, low, xp.where(h > 0, high, h))


def between(h: Array, xp: Namespace, low: float, high: float) -> Array:
    """1 inside (low, high), 0 outside, NaN passed on."""
    return xp.where(h <= low, 0.0, xp.where(h >= high, 0.0, xp.where(h < high, 1.0, h)))


def limited(h: Array, xp: Namespace, low: float, high: float) -> Array:
    """h held to [low, high], NaN passed on."""
    return xp.where(h <= low, low, xp.where(h >= high, high, h))


def identity(h: Array, xp: Namespace) -> Array:
    return h


def d_identity(h: Array, xp: Namespace) -> Array:
    return xp.ones_like(h)


def relu(h: Array, xp: Namespace) -> Array:
    return xp.where(h <= 0, 0.0, h)


def relu2(h: Array, xp: Namespace) -> Array:
    r = relu(h, xp)
    return r * r


def d_relu2(h: Array, xp: Namespace) -> Array:
    return 2 * relu(h, xp)


def relu6(h: Array, xp: Namespace) -> Array:
    return limited(h, xp, 0.0, 6.0)


def d_relu6(h: Array, xp: Namespace) -> Array:
    return between(h, xp, 0.0, 6.0)


def leaky_relu(h: Array, xp: Namespace) -> Array:
    return xp.where(h <= 0, 0.01 * h, h)


def d_leaky_relu(h: Array, xp: Namespace) -> Array:
    return step(h, xp, 0.01)


def hard_sigmoid(h: Array, xp: Namespace) -> Array:
    return limited(h + 3, xp, 0.0, 6.0) / 6


def d_hard_sigmoid(h: Array, xp: Namespace) -> Array:
    return between(h, xp, -3.0, 3.0) / 6


def hard_swish(h: Array, xp: Namespace) -> Array:
    return h * hard_sigmoid(h, xp)


def d_hard_swish(h: Array, xp: Namespace) -> Array:
    return hard_sigmoid(h, xp) + limited(h, xp, -3.0, 3.0) * d_hard_sigmoid(h, xp)


def softsign(h: Array, xp: Namespace) -> Array:
    return h / (1 - minus_abs(h, xp))


def d_softsign(h: Array, xp: Namespace) -> Array:
    r = 1 / (1 - minus_abs(h, xp))
    return r * r
