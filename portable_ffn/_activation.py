"""Every activation by name: its value and its derivative, in functions of the array API standard.

A formula takes an array in float32 or float64 and the namespace. exp never sees a positive argument, so that
nothing overflows. Comparisons are written `h <= 0`, so that NaN takes the branch of h itself and passes on, and
so that automatic differentiation finds the derivative at 0 too. Infinities give the limit, and NaN at -inf where
the formula is x times a factor that vanishes there, as in every library.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from portable_ffn._erf import upper_tail
from portable_ffn._named import Named
from portable_ffn._typing import Array, Namespace

SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
ONE_OVER_SQRT_2PI = 1 / math.sqrt(2 * math.pi)
CUBIC = 0.044715  # Hendrycks and Gimpel 2016, the tanh form of GELU
SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717  # Klambauer et al. 2017
LAPLACE_MU, LAPLACE_SIGMA = 0.707107, 0.282095  # Ma et al. 2022 (Mega), as published: six digits


def minus_abs(h: Array, xp: Namespace) -> Array:
    """-|h|, with slope 1 at 0."""
    return xp.where(h <= 0, h, -h)


def step(h: Array, xp: Namespace, low: float = 0.0, high: float = 1.0) -> Array:
    """`low` up to and including 0, `high` above."""
    return xp.where(h <= 0, low, high * xp.ones_like(h))


def between(h: Array, xp: Namespace, low: float, high: float) -> Array:
    """1 inside (low, high), 0 elsewhere."""
    return xp.where(h <= low, 0.0, xp.where(h >= high, 0.0, xp.ones_like(h)))


def limited(h: Array, xp: Namespace, low: float, high: float) -> Array:
    """H held to [low, high], NaN passed on."""
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


def elu(h: Array, xp: Namespace) -> Array:
    return xp.where(h <= 0, xp.expm1(xp.where(h <= 0, h, 0.0)), h)


def d_elu(h: Array, xp: Namespace) -> Array:
    return xp.where(h <= 0, xp.exp(minus_abs(h, xp)), 1.0)


def selu(h: Array, xp: Namespace) -> Array:
    negative = SELU_SCALE * SELU_ALPHA * xp.expm1(xp.where(h <= 0, h, 0.0))
    return xp.where(h <= 0, negative, SELU_SCALE * h)


def d_selu(h: Array, xp: Namespace) -> Array:
    return xp.where(h <= 0, SELU_SCALE * SELU_ALPHA * xp.exp(minus_abs(h, xp)), SELU_SCALE)


def sigmoid(h: Array, xp: Namespace) -> Array:
    e = xp.exp(minus_abs(h, xp))
    r = 1 / (1 + e)
    return xp.where(h <= 0, e * r, r)


def d_sigmoid(h: Array, xp: Namespace) -> Array:
    e = xp.exp(minus_abs(h, xp))
    r = 1 / (1 + e)
    return e * r * r


def tanh(h: Array, xp: Namespace) -> Array:
    return xp.tanh(h)


def d_tanh(h: Array, xp: Namespace) -> Array:
    return 4 * d_sigmoid(2 * h, xp)  # 1 - tanh(h)**2, which cancels for large h


def silu(h: Array, xp: Namespace) -> Array:
    return h * sigmoid(h, xp)


def d_silu(h: Array, xp: Namespace) -> Array:
    return sigmoid(h, xp) + h * d_sigmoid(h, xp)


def quick_gelu(h: Array, xp: Namespace) -> Array:
    return h * sigmoid(1.702 * h, xp)


def d_quick_gelu(h: Array, xp: Namespace) -> Array:
    return sigmoid(1.702 * h, xp) + 1.702 * h * d_sigmoid(1.702 * h, xp)


def _tanh_argument(h: Array, xp: Namespace) -> tuple[Array, Array]:
    """Twice the argument of the tanh form, and h held to where that decides anything: its cube stays finite."""
    near = limited(h, xp, -30.0, 30.0)
    return 2 * SQRT_2_OVER_PI * near * (1 + CUBIC * near * near), near


def gelu_tanh(h: Array, xp: Namespace) -> Array:
    return h * sigmoid(_tanh_argument(h, xp)[0], xp)  # (1 + tanh(u)) / 2 = sigmoid(2 u)


def d_gelu_tanh(h: Array, xp: Namespace) -> Array:
    z, near = _tanh_argument(h, xp)
    slope = 2 * SQRT_2_OVER_PI * (1 + 3 * CUBIC * near * near)
    return sigmoid(z, xp) + near * d_sigmoid(z, xp) * slope


def normal_cdf(h: Array, xp: Namespace) -> Array:
    """The standard normal distribution function."""
    tail = upper_tail(-minus_abs(h, xp), xp)
    return xp.where(h <= 0, tail, 1 - tail)


def normal_pdf(h: Array, xp: Namespace) -> Array:
    """The standard normal density."""
    near = limited(h, xp, -40.0, 40.0)
    return ONE_OVER_SQRT_2PI * xp.exp(-0.5 * near * near)


def gelu(h: Array, xp: Namespace) -> Array:
    tail = upper_tail(-minus_abs(h, xp), xp)
    return xp.where(h <= 0, h * tail, h - limited(h, xp, 0.0, 40.0) * tail)


def d_gelu(h: Array, xp: Namespace) -> Array:
    return normal_cdf(h, xp) + limited(h, xp, -40.0, 40.0) * normal_pdf(h, xp)


def gelu_10(h: Array, xp: Namespace) -> Array:
    return limited(gelu(h, xp), xp, -10.0, 10.0)


def d_gelu_10(h: Array, xp: Namespace) -> Array:
    return d_gelu(h, xp) * between(gelu(h, xp), xp, -10.0, 10.0)


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
    return t + h * xp.where(h <= 0, 4 * e * (1 + e) / (low * low), 4 * e * e * (1 + e) / (high * high))


def hard_sigmoid(h: Array, xp: Namespace) -> Array:
    return limited(h + 3, xp, 0.0, 6.0) / 6


def d_hard_sigmoid(h: Array, xp: Namespace) -> Array:
    return between(h, xp, -3.0, 3.0) / 6


def hard_swish(h: Array, xp: Namespace) -> Array:
    return h * hard_sigmoid(h, xp)


def d_hard_swish(h: Array, xp: Namespace) -> Array:
    return hard_sigmoid(h, xp) + h * d_hard_sigmoid(h, xp)


def laplace(h: Array, xp: Namespace) -> Array:
    return normal_cdf((h - LAPLACE_MU) / LAPLACE_SIGMA, xp)


def d_laplace(h: Array, xp: Namespace) -> Array:
    return normal_pdf((h - LAPLACE_MU) / LAPLACE_SIGMA, xp) / LAPLACE_SIGMA


def softsign(h: Array, xp: Namespace) -> Array:
    return h / (1 - minus_abs(h, xp))


def d_softsign(h: Array, xp: Namespace) -> Array:
    r = 1 / (1 - minus_abs(h, xp))
    return r * r


# name -> value, derivative. Adding one is a row here and the scalar formula in the oracle's table.
FORMULAS: Mapping[str, tuple[Callable[..., Array], Callable[..., Array]]] = {
    "relu": (relu, step),
    "relu2": (relu2, d_relu2),  # So et al. 2021 (Primer)
    "relu6": (relu6, d_relu6),  # Howard et al. 2017 (MobileNets)
    "gelu": (gelu, d_gelu),  # Hendrycks and Gimpel 2016: x times the normal distribution function
    "gelu_tanh": (gelu_tanh, d_gelu_tanh),  # ibid., the tanh form
    "quick_gelu": (quick_gelu, d_quick_gelu),  # ibid., the sigmoid form with 1.702
    "gelu_10": (gelu_10, d_gelu_10),  # GELU held to [-10, 10] (Prato et al. 2019)
    "silu": (silu, d_silu),  # Elfwing et al. 2017; Swish with beta 1
    "sigmoid": (sigmoid, d_sigmoid),
    "tanh": (tanh, d_tanh),
    "identity": (identity, d_identity),
    "leaky_relu": (leaky_relu, d_leaky_relu),  # Maas et al. 2013, slope 0.01
    "elu": (elu, d_elu),  # Clevert et al. 2015, alpha 1
    "selu": (selu, d_selu),  # Klambauer et al. 2017
    "mish": (mish, d_mish),  # Misra 2019
    "softplus": (softplus, sigmoid),
    "sqrt_softplus": (sqrt_softplus, d_sqrt_softplus),
    "hard_sigmoid": (hard_sigmoid, d_hard_sigmoid),
    "hard_swish": (hard_swish, d_hard_swish),  # Howard et al. 2019 (MobileNetV3)
    "laplace": (laplace, d_laplace),  # Ma et al. 2022 (Mega)
    "softsign": (softsign, d_softsign),
}

ACTIVATIONS: Mapping[str, Named] = MappingProxyType(
    {name: Named(name, value, derivative) for name, (value, derivative) in FORMULAS.items()},
)
