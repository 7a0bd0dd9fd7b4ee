"""Gates that combine the two branches in a way of their own, beside `ClippedGate`."""

import math
from dataclasses import dataclass
from statistics import NormalDist

from portable_ffn._activations.exponential import d_sigmoid, d_tanh, sigmoid
from portable_ffn._activations.named import Named, pair_through_float32
from portable_ffn._activations.resolve import resolve
from portable_ffn._arrays.number import as_float
from portable_ffn._arrays.promotion import namespace
from portable_ffn._arrays.typing import Array, Namespace


@dataclass(frozen=True, slots=True)
class SoftcapGate:
    """cap(g, gate_cap) s(g) cap(u, up_cap), where cap(z, c) = c tanh(z / c) and s is the sigmoid.

    The sigmoid sees the gate as it is: only the linear factors are capped.

    Parameters
    ----------
    gate_cap, up_cap : float
        Above zero.
    """

    gate_cap: float
    up_cap: float

    def __post_init__(self) -> None:
        for name in ("gate_cap", "up_cap"):
            cap = as_float(name, getattr(self, name))
            if not (math.isfinite(cap) and cap > 0):
                raise ValueError(f"{name} must be finite and above zero, got {cap}")
            object.__setattr__(self, name, cap)

    def gate(self, g: Array, u: Array) -> Array:
        """The hidden layer from both branches, (..., d_ff) each, of one dtype."""
        return pair_through_float32(self._value, (g, u), namespace(g, u))[0]

    def gate_vjp(self, g: Array, u: Array, d: Array) -> tuple[Array, Array]:
        """The gradients of g and u, given that of the hidden layer."""
        dg, du = pair_through_float32(self._slopes, (g, u, d), namespace(g, u, d))
        return dg, du

    def _value(self, xp: Namespace, g: Array, u: Array) -> tuple[Array]:
        """cap(g) s(g) cap(u)."""
        return (_cap(g, self.gate_cap, xp) * sigmoid(g, xp) * _cap(u, self.up_cap, xp),)

    def _slopes(self, xp: Namespace, g: Array, u: Array, d: Array) -> tuple[Array, Array]:
        """D times the derivatives by g and by u."""
        capped, s = _cap(g, self.gate_cap, xp), sigmoid(g, xp)
        by_g = d_tanh(g / self.gate_cap, xp) * s + capped * d_sigmoid(g, xp)
        return d * by_g * _cap(u, self.up_cap, xp), d * capped * s * d_tanh(u / self.up_cap, xp)


@dataclass(frozen=True, slots=True)
class TopKGate:
    """act(relu(g - t)) u with t = mean(g) + z std(g) over the hidden axis: the Gaussian top-k of Gemma 3n.

    z is the normal distribution's quantile at `sparsity`, so that about that share of the gates is put to zero.

    Parameters
    ----------
    sparsity : float
        Between 0 and 1, both excluded.
    activation : str
        A name of `ACTIVATIONS`.

    References
    ----------
    You et al. 2025, Spark Transformer: Reactivating Sparsity in FFN and Attention, section 3 (statistical top-k).
    """

    sparsity: float
    activation: str = "gelu_tanh"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sparsity", as_float("sparsity", self.sparsity))
        if not 0 < self.sparsity < 1:
            raise ValueError(f"sparsity must lie between 0 and 1, got {self.sparsity}")
        if not isinstance(self.activation, str):
            raise TypeError(f"activation must be a name, got {type(self.activation).__name__}")
        resolve(self.activation, True)

    @property
    def quantile(self) -> float:
        """How many standard deviations above the mean the threshold lies."""
        return NormalDist().inv_cdf(self.sparsity)

    def gate(self, g: Array, u: Array) -> Array:
        """The hidden layer from both branches, (..., d_ff) each, of one dtype."""
        return pair_through_float32(self._value, (g, u), namespace(g, u))[0]

    def gate_vjp(self, g: Array, u: Array, d: Array) -> tuple[Array, Array]:
        """The gradients of g and u, given that of the hidden layer."""
        dg, du = pair_through_float32(self._slopes, (g, u, d), namespace(g, u, d))
        return dg, du

    def _parts(self, g: Array, xp: Namespace) -> tuple[Array, Array, Array]:
        """What is left of g above the threshold, g less its mean, and the standard deviation."""
        centred = g - xp.mean(g, axis=-1, keepdims=True)
        std = xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True))
        above = centred - self.quantile * std
        return xp.where(above <= 0, 0.0, above), centred, std

    def _value(self, xp: Namespace, g: Array, u: Array) -> tuple[Array]:
        """act(relu(g - t)) u."""
        return (self._act.value(self._parts(g, xp)[0], xp) * u,)

    def _slopes(self, xp: Namespace, g: Array, u: Array, d: Array) -> tuple[Array, Array]:
        """D times the derivatives by g, through the mean and the deviation too, and by u."""
        above, centred, std = self._parts(g, xp)
        inner = xp.where(above <= 0, 0.0, d * u * self._act.slope(above, xp))
        mean = xp.mean(inner, axis=-1, keepdims=True)
        # d std / d g_j = centred_j / (n std); a constant row has std 0 and centred 0 throughout.
        unit = centred / xp.where(std <= 0, 1.0, std)
        return inner - mean - self.quantile * mean * unit, d * self._act.value(above, xp)

    @property
    def _act(self) -> Named:
        """The activation's formulas."""
        named = resolve(self.activation, True)
        assert isinstance(named, Named)
        return named


def _cap(z: Array, cap: float, xp: Namespace) -> Array:
    """Cap tanh(z / cap)."""
    return cap * xp.tanh(z / cap)
