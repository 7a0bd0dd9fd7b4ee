"""The gate with clamps: what GPT-OSS and its like put in place of SwiGLU."""

import math
from dataclasses import dataclass
from typing import Literal

from portable_ffn._activations.exponential import d_scaled_silu, sigmoid
from portable_ffn._activations.named import pair_through_float32
from portable_ffn._activations.piecewise import between, limited
from portable_ffn._arrays.number import as_float
from portable_ffn._arrays.promotion import namespace
from portable_ffn._arrays.typing import Array, Namespace


@dataclass(frozen=True, slots=True)
class ClippedGate:
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
            raise ValueError(f"limit must be zero or more, or None for no clamp, got {self.limit}")
        if not (math.isfinite(self.alpha) and math.isfinite(self.offset)):
            raise ValueError(f"alpha and offset must be finite, got {self.alpha} and {self.offset}")
        if self.clip not in ("before", "after"):
            raise ValueError(f'clip must be "before" or "after", got {self.clip!r}')

    def gate(self, g: Array, u: Array) -> Array:
        """The hidden layer from both branches, (..., d_ff) each, of one dtype."""
        return pair_through_float32(self._value, (g, u), namespace(g, u))[0]

    def gate_vjp(self, g: Array, u: Array, d: Array) -> tuple[Array, Array]:
        """The gradients of g and u, given that of the hidden layer; at a clamp's edge that of the clamped side."""
        dg, du = pair_through_float32(self._slopes, (g, u, d), namespace(g, u, d))
        return dg, du

    def _value(self, xp: Namespace, g: Array, u: Array) -> tuple[Array]:
        """act(g') (u' + offset)."""
        return (self._activated(g, xp) * self._linear(u, xp),)

    def _slopes(self, xp: Namespace, g: Array, u: Array, d: Array) -> tuple[Array, Array]:
        """D times the derivative of the hidden layer by g and by u."""
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
