"""Activations made of exp and tanh: their values and derivatives.

exp never sees a positive argument, so nothing overflows. Infinities give the limit, and NaN at -inf where the
formula is x times a factor that vanishes there, as in every library.
"""

from portable_ffn._activations.piecewise import limited, minus_abs, relu, step
from portable_ffn._activations.tail import CUBIC, TWICE_SQRT_2_OVER_PI
from portable_ffn._arrays.typing import Array, Namespace

FAR = 1e4  # beyond it exp(-|h|) has long been 0
SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717  # Klambauer et al. 2017


def elu(h: Array, xp: Namespace) -> Array:
    return xp.where(h <= 0, xp.expm1(xp.where(h <= 0, h, 0.0)), h)


def d_elu(h: Array, xp: Namespace) -> Array:
    return xp.where(h <= 0, xp.exp(minus_abs(h, xp)), step(h, xp))


def selu(h: Array, xp: Namespace) -> Array:
    negative = SELU_SCALE * SELU_ALPHA * xp.expm1(xp.where(h <= 0, h, 0.0))
    return xp.where(h <= 0, negative, SELU_SCALE * h)


def d_selu(h: Array, xp: Namespace) -> Array:
    negative = SELU_SCALE * SELU_ALPHA * xp.exp(minus_abs(h, xp))
    return xp.where(h <= 0, negative, step(h, xp, high=SELU_SCALE))


def sigmoid(h: Array, xp: Namespace) -> Array:
    e = xp.exp(minus_abs(h, xp))
    # Not e * (1 / (1 + e)), of which tinygrad makes 1 - 1 / (1 + e).
    return xp.where(h <= 0, e, 1.0) * (1 / (1 + e))


def d_sigmoid(h: Array, xp: Namespace) -> Array:
    e = xp.exp(minus_abs(h, xp))
    r = 1 / (1 + e)
    return e * r * r


def tanh(h: Array, xp: Namespace) -> Array:
    return xp.tanh(h)


def d_tanh(h: Array, xp: Namespace) -> Array:
    return 4 * d_sigmoid(2 * h, xp)


def silu(h: Array, xp: Namespace) -> Array:
    return h * sigmoid(h, xp)


def d_scaled_silu(h: Array, xp: Namespace, alpha: float) -> Array:
    """The derivative of h s(alpha h); the second term vanishes well before its factor is held."""
    z = alpha * h
    return sigmoid(z, xp) + limited(z, xp, -FAR, FAR) * d_sigmoid(z, xp)


def d_silu(h: Array, xp: Namespace) -> Array:
    return d_scaled_silu(h, xp, 1.0)


def quick_gelu(h: Array, xp: Namespace) -> Array:
    return h * sigmoid(1.702 * h, xp)


def d_quick_gelu(h: Array, xp: Namespace) -> Array:
    return d_scaled_silu(h, xp, 1.702)


def _tanh_argument(h: Array, xp: Namespace) -> tuple[Array, Array]:
    """Twice the argument of the tanh form, and h held to where that decides anything: its cube stays finite."""
    near = limited(h, xp, -30.0, 30.0)
    return TWICE_SQRT_2_OVER_PI * near * (1 + CUBIC * near * near), near


def gelu_tanh(h: Array, xp: Namespace) -> Array:
    return h * sigmoid(_tanh_argument(h, xp)[0], xp)


def d_gelu_tanh(h: Array, xp: Namespace) -> Array:
    z, near = _tanh_argument(h, xp)
    slope = TWICE_SQRT_2_OVER_PI * (1 + 3 * CUBIC * near * near)
    return sigmoid(z, xp) + near * d_sigmoid(z, xp) * slope


def softplus(h: Array, xp: Namespace) -> Array:
    return relu(h, xp) + xp.log1p(xp.exp(minus_abs(h, xp)))


def sqrt_softplus(h: Array, xp: Namespace) -> Array:
    # Below -40 softplus(h) is exp(h) to the last digit, and its root would have an infinite derivative at 0.
    low = xp.exp(0.5 * xp.where(h <= -40, h, -40.0))
    return xp.where(h <= -40, low, xp.sqrt(softplus(xp.where(h <= -40, -40.0, h), xp)))


def d_sqrt_softplus(h: Array, xp: Namespace) -> Array:
    above = xp.where(h <= -40, -40.0, h)
    return xp.where(h <= -40, 0.5 * sqrt_softplus(h, xp), 0.5 * sigmoid(above, xp) / sqrt_softplus(above, xp))


def mish(h: Array, xp: Namespace) -> Array:
    # tanh(log(1 + z)) = (z**2 + 2 z) / (z**2 + 2 z + 2), z = exp(h), or its like in 1 / z for h > 0.
    e = xp.exp(minus_abs(h, xp))
    return h * xp.where(h <= 0, e * (e + 2) / (e * (e + 2) + 2), (1 + 2 * e) / (1 + 2 * e + 2 * e * e))


def d_mish(h: Array, xp: Namespace) -> Array:
    e = xp.exp(minus_abs(h, xp))
    low, high = e * (e + 2) + 2, 1 + 2 * e + 2 * e * e
    t = xp.where(h <= 0, e * (e + 2) / low, (1 + 2 * e) / high)
    # d/dh tanh(log(1 + z)) = 4 z (1 + z) / (z**2 + 2 z + 2)**2
    slope = xp.where(h <= 0, 4 * e * (1 + e) / (low * low), 4 * e * e * (1 + e) / (high * high))
    return t + limited(h, xp, -FAR, FAR) * slope
