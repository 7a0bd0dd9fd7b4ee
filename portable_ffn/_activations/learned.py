"""Activations with numbers of their own: learned ones, and the tanh GELU with another constant.

They are constructors, not entries of `ACTIVATIONS`. Their numbers are Python floats, so that they hash, pickle and
never change the dtype of what they meet.
"""

import math
from dataclasses import dataclass
from typing import Any

from portable_ffn._activations.bases import Elementwise
from portable_ffn._activations.exponential import sigmoid
from portable_ffn._activations.piecewise import minus_abs
from portable_ffn._activations.tail import CUBIC
from portable_ffn._arrays.errors import refusal
from portable_ffn._arrays.number import as_float
from portable_ffn._arrays.promotion import constants
from portable_ffn._arrays.typing import Array, Namespace


@dataclass(frozen=True, slots=True)
class PReLU(Elementwise):
    """x where x > 0, weight x elsewhere.

    Parameters
    ----------
    weight : float, or sequence of d_ff floats
        The slope on the left: one, or one a channel (the last axis).

    References
    ----------
    He et al. 2015, Delving Deep into Rectifiers, equation 1.
    """

    weight: float | tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", _floats(self.weight))

    def _left(self, h: Array, xp: Namespace) -> Any:
        """The slope on the left, as a number or an array of the last axis."""
        if isinstance(self.weight, float):
            return self.weight
        if len(self.weight) != h.shape[-1]:
            statement = f"must have one number a channel, {h.shape[-1]}, got {len(self.weight)}"
            raise refusal(ValueError, "weight", statement)
        return xp.add(xp.zeros_like(h), constants(self.weight, h, xp))

    def value(self, h: Array, xp: Namespace) -> Array:
        return xp.where(h <= 0, self._left(h, xp) * h, h)

    def slope(self, h: Array, xp: Namespace) -> Array:
        return xp.where(h <= 0, self._left(h, xp), xp.ones_like(h))


@dataclass(frozen=True, slots=True)
class XIELU(Elementwise):
    """ap x**2 + beta x where x > 0, (expm1(min(x, eps)) - x) an + beta x elsewhere.

    ap = softplus(alpha_p) and an = beta + softplus(alpha_n), of the numbers as a checkpoint stores them.

    Parameters
    ----------
    alpha_p, alpha_n : float
    beta : float
        The slope at 0.
    eps : float
        Keeps the left side from cancelling near 0; negative and small.

    References
    ----------
    Huang and Schlag 2024, Deriving Activation Functions Using Integration (arXiv 2411.13010).
    """

    alpha_p: float
    alpha_n: float
    beta: float = 0.5
    eps: float = -1e-6

    def __post_init__(self) -> None:
        for name in ("alpha_p", "alpha_n", "beta", "eps"):
            object.__setattr__(self, name, as_float(name, getattr(self, name), at_least=-math.inf))

    def value(self, h: Array, xp: Namespace) -> Array:
        right, left = _softplus(self.alpha_p), self.beta + _softplus(self.alpha_n)
        low = xp.where(h >= self.eps, self.eps, h)
        return xp.where(h <= 0, (xp.expm1(low) - h) * left, right * h * h) + self.beta * h

    def slope(self, h: Array, xp: Namespace) -> Array:
        right, left = _softplus(self.alpha_p), self.beta + _softplus(self.alpha_n)
        grown = xp.where(h >= self.eps, 0.0, xp.exp(minus_abs(h, xp)))
        return xp.where(h <= 0, (grown - 1) * left, 2 * right * h) + self.beta


@dataclass(frozen=True, slots=True)
class TanhGELU(Elementwise):
    """x (1 + tanh(constant (x + 0.044715 x**3))) / 2: the tanh GELU with sqrt(2 / pi) as some code rounds it.

    BLOOM's own code says 0.79788456, whose results differ from `gelu_tanh` by 1e-9.
    """

    constant: float = math.sqrt(2 / math.pi)

    def __post_init__(self) -> None:
        object.__setattr__(self, "constant", as_float("constant", self.constant, at_least=-math.inf))

    def _argument(self, h: Array, xp: Namespace) -> tuple[Array, Array]:
        """Twice the argument of tanh, and h held to where the form is not yet 0 or h: the cube never overflows."""
        near = xp.where(h <= -20.0, -20.0, xp.where(h >= 20.0, 20.0, h))
        return 2 * self.constant * near * (1 + CUBIC * near * near), near

    def value(self, h: Array, xp: Namespace) -> Array:
        return h * sigmoid(self._argument(h, xp)[0], xp)

    def slope(self, h: Array, xp: Namespace) -> Array:
        z, near = self._argument(h, xp)
        s = sigmoid(z, xp)
        return s + near * s * (1 - s) * 2 * self.constant * (1 + 3 * CUBIC * near * near)


def _softplus(z: float) -> float:
    """log(1 + exp(z)), without overflow."""
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


def _floats(value: Any) -> float | tuple[float, ...]:
    """A float, or a tuple of them; one alone in its sequence is the float."""
    if not hasattr(value, "__len__") or getattr(value, "ndim", 1) == 0:
        return as_float("weight", value, at_least=-math.inf)
    numbers = tuple(as_float("weight", number, at_least=-math.inf) for number in value)
    return numbers[0] if len(numbers) == 1 else numbers
