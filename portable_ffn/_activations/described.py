"""What `help` shows of each activation: its formula, its range, and where it comes from."""

from collections.abc import Mapping
from typing import NamedTuple


class Described(NamedTuple):
    """A formula of x in the functions of Python's `math`, its smallest and largest value, and its source."""

    formula: str
    least: float
    most: float
    source: str


_INFINITE = float("inf")
_ERF = "x (1 + erf(x / sqrt(2))) / 2"
_TANH = "x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))) / 2"

DESCRIBED: Mapping[str, Described] = {
    "relu": Described("max(0, x)", 0.0, _INFINITE, "Vaswani et al. 2017, Attention Is All You Need, equation 2"),
    "relu2": Described("max(0, x)**2", 0.0, _INFINITE, "So et al. 2021, Primer"),
    "relu6": Described("min(max(0, x), 6)", 0.0, 6.0, "Howard et al. 2017, MobileNets"),
    "gelu": Described(_ERF, -0.169971, _INFINITE, "Hendrycks and Gimpel 2016, Gaussian Error Linear Units"),
    "gelu_tanh": Described(_TANH, -0.170041, _INFINITE, "Hendrycks and Gimpel 2016, the form with tanh"),
    "quick_gelu": Described(
        "x / (1 + exp(-1.702 x))", -0.163610, _INFINITE, "Hendrycks and Gimpel 2016, the form with a sigmoid"
    ),
    "gelu_10": Described(f"min(max({_ERF}, -10), 10)", -0.169971, 10.0, "Prato et al. 2019, GELU held to [-10, 10]"),
    "silu": Described("x / (1 + exp(-x))", -0.278465, _INFINITE, "Elfwing et al. 2017; Swish with beta 1"),
    "sigmoid": Described("1 / (1 + exp(-x))", 0.0, 1.0, "the logistic function; Dauphin et al. 2016 as a gate"),
    "tanh": Described("tanh(x)", -1.0, 1.0, "the hyperbolic tangent"),
    "identity": Described("x", -_INFINITE, _INFINITE, "no activation; Shazeer 2020 as Bilinear where gated"),
    "leaky_relu": Described("max(x, 0.01 x)", -_INFINITE, _INFINITE, "Maas et al. 2013, slope 0.01"),
    "elu": Described("max(x, 0) + expm1(min(x, 0))", -1.0, _INFINITE, "Clevert et al. 2015, alpha 1"),
    "selu": Described(
        "1.0507009873554805 (max(x, 0) + 1.6732632423543772 expm1(min(x, 0)))",
        -1.758100,
        _INFINITE,
        "Klambauer et al. 2017, Self-Normalizing Neural Networks",
    ),
    "mish": Described("x tanh(log1p(exp(x)))", -0.308843, _INFINITE, "Misra 2019, Mish"),
    "softplus": Described("log1p(exp(x))", 0.0, _INFINITE, "Dugas et al. 2000"),
    "sqrt_softplus": Described("sqrt(log1p(exp(x)))", 0.0, _INFINITE, "the root of softplus"),
    "hard_sigmoid": Described("min(max(x + 3, 0), 6) / 6", 0.0, 1.0, "Howard et al. 2019, MobileNetV3"),
    "hard_swish": Described("x min(max(x + 3, 0), 6) / 6", -0.375, _INFINITE, "Howard et al. 2019, MobileNetV3"),
    "laplace": Described(
        "(1 + erf((x - 0.707107) / (0.282095 sqrt(2)))) / 2", 0.0, 1.0, "Ma et al. 2022, Mega, section 3.2"
    ),
    "softsign": Described("x / (1 + abs(x))", -1.0, 1.0, "Turian et al. 2009"),
}


def described(name: str) -> str:
    """An activation in three lines; the name alone where it is none of the table."""
    if name not in DESCRIBED:
        return name
    formula, least, most, source = DESCRIBED[name]
    return f"{name}(x) = {formula}\n\nRange: from {least:g} to {most:g}.\nSource: {source}."
