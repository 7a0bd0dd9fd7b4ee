"""Gates that combine the two branches in a way of their own: with clamps, with caps, with the largest gates alone."""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from portable_ffn._activations.bases import Combiner
from portable_ffn._activations.exponential import d_scaled_silu, d_sigmoid, d_tanh, sigmoid
from portable_ffn._activations.named import Named
from portable_ffn._activations.piecewise import between, limited
from portable_ffn._activations.table import named
from portable_ffn._arrays.errors import refusal
from portable_ffn._arrays.number import as_float
from portable_ffn._arrays.typing import Array, Namespace


@dataclass(frozen=True, slots=True)
class ClippedGate(Combiner):
    """A gate whose branches are clamped, passed as `activation=`; s is the sigmoid.

    clip "before": g' s(alpha g') (u' + offset) with g' = min(g, limit) and u' = clip(u, -limit, limit);
    clip "after": min(g s(alpha g), limit) (u' + offset).

    Parameters
    ----------
    limit : float or None
        The clamp, zero or more; the gate is held from above only, the linear branch on both sides. None: no clamp.
    alpha : float
        The factor inside the sigmoid: 1 gives silu, 1.702 the quick GELU.
    offset : float
        What is added to the linear branch after its clamp.
    clip : {"before", "after"}
        Whether the gate is clamped before or after its activation.

    Raises
    ------
    TypeError
        For what is no number.
    ValueError
        For a limit that is negative or NaN, an alpha or offset that is not finite, an unknown `clip`.

    Notes
    -----
    GPT-OSS (OpenAI 2025) has limit 7, alpha 1.702 and offset 1.
    """

    limit: float | None
    alpha: float = 1.0
    offset: float = 0.0
    clip: Literal["before", "after"] = "before"

    def __post_init__(self) -> None:
        for name in ("limit", "alpha", "offset"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, as_float(name, value))
        if self.limit is not None and not self.limit >= 0:
            raise refusal(ValueError, "limit", f"must be zero or more, or None for no clamp, got {self.limit}")
        if not (math.isfinite(self.alpha) and math.isfinite(self.offset)):
            statement = f"must be finite, got {self.alpha} and {self.offset}"
            raise refusal(ValueError, "alpha and offset", statement)
        if self.clip not in ("before", "after"):
            raise refusal(ValueError, "clip", f'must be "before" or "after", got {self.clip!r}')

    def value(self, xp: Namespace, g: Array, u: Array) -> tuple[Array]:
        """act(g') (u' + offset)."""
        return (self._activated(g, xp) * self._linear(u, xp),)

    def slopes(self, xp: Namespace, g: Array, u: Array, d: Array) -> tuple[Array, Array]:
        """d times the derivatives by g and by u."""
        z = self._below(g, xp) if self.clip == "before" else g
        slope = d_scaled_silu(z, xp, self.alpha)
        du = self._activated(g, xp)
        if self.limit is not None:
            decided = g if self.clip == "before" else z * sigmoid(self.alpha * z, xp)
            slope = xp.where(decided >= self.limit, 0.0, slope)
            du = du * between(u, xp, -self.limit, self.limit)
        return d * slope * self._linear(u, xp), d * du

    def _activated(self, g: Array, xp: Namespace) -> Array:
        """The activated branch with its clamp."""
        if self.clip == "before":
            g = self._below(g, xp)
            return g * sigmoid(self.alpha * g, xp)
        return self._below(g * sigmoid(self.alpha * g, xp), xp)

    def _linear(self, u: Array, xp: Namespace) -> Array:
        """The linear branch with its clamp and offset."""
        return (u if self.limit is None else limited(u, xp, -self.limit, self.limit)) + self.offset

    def _below(self, g: Array, xp: Namespace) -> Array:
        """g held from above."""
        return g if self.limit is None else xp.where(g >= self.limit, self.limit, g)


@dataclass(frozen=True, slots=True)
class SoftcapGate(Combiner):
    """cap(g, gate_cap) s(g) cap(u, up_cap), where cap(z, c) = c tanh(z / c) and s is the sigmoid.

    The sigmoid sees the gate as it is: only the linear factors are capped. Both caps lie above zero.
    """

    gate_cap: float
    up_cap: float

    def __post_init__(self) -> None:
        for name in ("gate_cap", "up_cap"):
            cap = as_float(name, getattr(self, name))
            if not (math.isfinite(cap) and cap > 0):
                raise refusal(ValueError, name, f"must be finite and above zero, got {cap}")
            object.__setattr__(self, name, cap)

    def value(self, xp: Namespace, g: Array, u: Array) -> tuple[Array]:
        """cap(g) s(g) cap(u)."""
        return (_cap(g, self.gate_cap, xp) * sigmoid(g, xp) * _cap(u, self.up_cap, xp),)

    def slopes(self, xp: Namespace, g: Array, u: Array, d: Array) -> tuple[Array, Array]:
        """d times the derivatives by g and by u."""
        capped, s = _cap(g, self.gate_cap, xp), sigmoid(g, xp)
        by_g = d_tanh(g / self.gate_cap, xp) * s + capped * d_sigmoid(g, xp)
        return d * by_g * _cap(u, self.up_cap, xp), d * capped * s * d_tanh(u / self.up_cap, xp)


def _cap(z: Array, cap: float, xp: Namespace) -> Array:
    """cap tanh(z / cap)."""
    return cap * xp.tanh(z / cap)


@dataclass(frozen=True, slots=True)
class TopKGate(Combiner):
    """act(relu(g - t)) u with t = mean(g) + z std(g) over the hidden axis: the Gaussian top-k of Gemma 3n.

    z is the normal distribution's quantile at `sparsity`, which lies between 0 and 1: about that share of the gates is
    put to zero. `activation` is a name of `ACTIVATIONS`.

    References
    ----------
    You et al. 2025, Spark Transformer: Reactivating Sparsity in FFN and Attention, section 3 (statistical top-k).
    """

    sparsity: float
    activation: str = "gelu_tanh"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sparsity", as_float("sparsity", self.sparsity))
        if not 0 < self.sparsity < 1:
            raise refusal(ValueError, "sparsity", f"must lie between 0 and 1, got {self.sparsity}")
        if not isinstance(self.activation, str):
            raise refusal(TypeError, "activation", f"must be a name, got {type(self.activation).__name__}")
        named(self.activation)

    @property
    def quantile(self) -> float:
        """How many standard deviations above the mean the threshold lies."""
        return NormalDist().inv_cdf(self.sparsity)

    @property
    def _act(self) -> Named:
        return named(self.activation)

    def value(self, xp: Namespace, g: Array, u: Array) -> tuple[Array]:
        """act(relu(g - t)) u."""
        return (self._act.value(self._parts(g, xp)[0], xp) * u,)

    def slopes(self, xp: Namespace, g: Array, u: Array, d: Array) -> tuple[Array, Array]:
        """d times the derivatives by g, through the mean and the deviation too, and by u."""
        above, centred, std = self._parts(g, xp)
        inner = xp.where(above <= 0, 0.0, d * u * self._act.slope(above, xp))
        mean = xp.mean(inner, axis=-1, keepdims=True)
        # d std / d g_j = centred_j / (n std); a constant row has std 0 and centred 0 throughout.
        unit = centred / xp.where(std <= 0, 1.0, std)
        return inner - mean - self.quantile * mean * unit, d * self._act.value(above, xp)

    def _parts(self, g: Array, xp: Namespace) -> tuple[Array, Array, Array]:
        """What is left of g above the threshold, g less its mean, and the standard deviation."""
        centred = g - xp.mean(g, axis=-1, keepdims=True)
        std = xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True))
        above = centred - self.quantile * std
        return xp.where(above <= 0, 0.0, above), centred, std


ClippedGate.__module__ = "portable_ffn"  # where it is public: reprs and pickles say so
