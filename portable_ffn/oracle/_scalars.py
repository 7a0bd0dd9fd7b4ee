"""Scalar formulas of `math` for the activations and their derivatives, which `_formulas` puts in one table.

A formula keeps its relative accuracy in the tails (erfc and expm1 where 1 + erf and exp - 1 would cancel), passes
NaN on, never raises for a float, and at infinity gives what IEEE arithmetic gives for the defining product: silu, the
GELUs, mish and hard_swish are NaN at -inf. At a kink the derivative is the one that the libraries give, relu's 0 at 0.
"""

import math

SQRT_HALF = math.sqrt(0.5)
SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
CUBIC = 0.044715  # Hendrycks and Gimpel 2016, section 2
QUICK = 1.702  # Hendrycks and Gimpel 2016, section 2
SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717  # Klambauer et al. 2017
# Ma et al. 2022 (Mega, section 3.4) set mu = sqrt(1/2), sigma = sqrt(1/(4 pi)); their published code and every model
# that took it over cut both to six digits, and these are the numbers that such weights were trained with.
LAPLACE_MU, LAPLACE_SIGMA = 0.707107, 0.282095


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)), with an exponential that can't overflow."""
    if x >= 0.0:
        return 1.0 / (1.0 + math.exp(-x))
    e = math.exp(x)
    return e / (1.0 + e)


def sigmoid_slope(x: float) -> float:
    """The derivative of sigmoid, s(x) s(-x), which doesn't cancel."""
    return sigmoid(x) * sigmoid(-x)


def sech2(x: float) -> float:
    """The derivative of tanh: 1 / cosh(x)**2 = 4 s(2x) s(-2x)."""
    return 4.0 * sigmoid_slope(2.0 * x)


def scaled_silu(x: float, alpha: float) -> float:
    """Silu (Elfwing et al. 2017) at alpha 1, the sigmoid form of GELU (Hendrycks and Gimpel 2016) at 1.702."""
    return x * sigmoid(alpha * x)


def scaled_silu_slope(x: float, alpha: float) -> float:
    """The derivative s + alpha x s (1 - s); the second term vanishes before x can overflow it."""
    p = sigmoid_slope(alpha * x)
    return sigmoid(alpha * x) + (alpha * x * p if p else 0.0)


def softplus(x: float) -> float:
    """log(1 + exp x), for either sign by a logarithm of 1 plus something small."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def sqrt_softplus(x: float) -> float:
    """sqrt(log(1 + exp x)); below -40 it is exp(x / 2) to 1e-18, and exp(x) could be subnormal."""
    return math.exp(0.5 * x) if x < -40.0 else math.sqrt(softplus(x))


def sqrt_softplus_slope(x: float) -> float:
    """s(x) / (2 sqrt(softplus x))."""
    return 0.5 * math.exp(0.5 * x) if x < -40.0 else 0.5 * sigmoid(x) / math.sqrt(softplus(x))


def normal_cdf(x: float) -> float:
    """Phi(x) by erfc, exact in both tails."""
    return 0.5 * math.erfc(-x * SQRT_HALF)


def normal_pdf(x: float) -> float:
    """phi(x)."""
    return math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def gelu(x: float) -> float:
    """The exact GELU x Phi(x): Hendrycks and Gimpel 2016."""
    return x * normal_cdf(x)


def gelu_slope(x: float) -> float:
    """Phi(x) + x phi(x)."""
    p = normal_pdf(x)
    return normal_cdf(x) + (x * p if p else 0.0)


def cubic(x: float) -> float:
    """Twice the argument of tanh in the tanh form of GELU."""
    return 2.0 * SQRT_2_OVER_PI * x * (1.0 + CUBIC * x * x)


def gelu_tanh(x: float) -> float:
    """The tanh GELU x (1 + tanh z) / 2 = x s(2z), Hendrycks and Gimpel 2016; s keeps the tail, 1 + tanh loses it."""
    return x * sigmoid(cubic(x))


def gelu_tanh_slope(x: float) -> float:
    """s(2z) + x s(2z) s(-2z) 2z'."""
    p = sigmoid_slope(cubic(x))
    return sigmoid(cubic(x)) + (x * p * 2.0 * SQRT_2_OVER_PI * (1.0 + 3.0 * CUBIC * x * x) if p else 0.0)


def mish(x: float) -> float:
    """The product x tanh(softplus x): Misra 2019."""
    return x * math.tanh(softplus(x))


def mish_slope(x: float) -> float:
    """tanh(softplus x) + x sech(softplus x)**2 s(x)."""
    p = sech2(softplus(x)) * sigmoid(x)
    return math.tanh(softplus(x)) + (x * p if p else 0.0)


def clamp(x: float, low: float, high: float) -> float:
    """The value held between low and high; min and max keep their first argument, so NaN passes."""
    return min(max(x, low), high)


def hard_sigmoid(x: float) -> float:
    """min(max(x + 3, 0), 6) / 6: Howard et al. 2019."""
    return clamp(x + 3.0, 0.0, 6.0) / 6.0


def hard_swish_slope(x: float) -> float:
    """(2x + 3) / 6 between -3 and 3."""
    if x <= -3.0:
        return 0.0
    return 1.0 if x >= 3.0 else (2.0 * x + 3.0) / 6.0


def laplace(x: float) -> float:
    """Phi((x - mu) / sigma): Ma et al. 2022."""
    return normal_cdf((x - LAPLACE_MU) / LAPLACE_SIGMA)


def elu(x: float, alpha: float = 1.0) -> float:
    """The value x above 0, alpha (exp x - 1) below: Clevert et al. 2015."""
    return alpha * math.expm1(x) if x < 0.0 else x


def beyond(x: float, right: float, left: float) -> float:
    """`right` above 0, `left` at and below, NaN for NaN."""
    return right if x > 0.0 else (x if x != x else left)


def elu_slope(x: float, alpha: float = 1.0) -> float:
    """1 above 0, alpha exp(x) at and below."""
    return beyond(x, 1.0, alpha * math.exp(min(x, 0.0)))


def within(x: float, low: float, high: float, slope: float = 1.0) -> float:
    """The derivative of a clamp: slope inside (low, high), 0 outside, NaN for NaN."""
    return slope if low < x < high else (x if x != x else 0.0)
