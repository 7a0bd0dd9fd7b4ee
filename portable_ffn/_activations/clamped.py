"""A clamped gate with an activation that a config names: what `ClippedGate` is for silu and the quick GELU."""

from dataclasses import dataclass
from typing import Literal

from portable_ffn._activations.bases import Combiner
from portable_ffn._activations.named import Named
from portable_ffn._activations.piecewise import between, limited
from portable_ffn._activations.table import named
from portable_ffn._arrays.errors import refusal
from portable_ffn._arrays.number import as_float
from portable_ffn._arrays.typing import Array, Namespace


@dataclass(frozen=True, slots=True)
class ClampedGate(Combiner):
    """A gate with clamps and any activation.

    clip "before": act(min(g, limit)) clip(u, -limit, limit); clip "after": min(act(g), limit) clip(u, -limit, limit).
    `limit` is zero or more, None for no clamp; `activation` is a name of `ACTIVATIONS`.
    """

    limit: float | None
    activation: str
    clip: Literal["before", "after"] = "before"

    def __post_init__(self) -> None:
        if self.limit is not None:
            object.__setattr__(self, "limit", as_float("limit", self.limit))
            if not self.limit >= 0:
                raise refusal(ValueError, "limit", f"must be zero or more, or None for no clamp, got {self.limit}")
        if not isinstance(self.activation, str):
            raise refusal(TypeError, "activation", f"must be a name, got {type(self.activation).__name__}")
        if self.clip not in ("before", "after"):
            raise refusal(ValueError, "clip", f'must be "before" or "after", got {self.clip!r}')
        named(self.activation)

    @property
    def _act(self) -> Named:
        return named(self.activation)

    def value(self, xp: Namespace, g: Array, u: Array) -> tuple[Array]:
        """The product of the branches."""
        return (self._activated(g, xp)[0] * self._linear(u, xp),)

    def slopes(self, xp: Namespace, g: Array, u: Array, d: Array) -> tuple[Array, Array]:
        """d times the derivatives by g and by u; at a clamp's edge those of the clamped side."""
        a, slope = self._activated(g, xp)
        du = a if self.limit is None else a * between(u, xp, -self.limit, self.limit)
        return d * slope * self._linear(u, xp), d * du

    def _activated(self, g: Array, xp: Namespace) -> tuple[Array, Array]:
        """The activated branch and its slope."""
        limit, before = self.limit, self.clip == "before"
        z = g if limit is None or not before else xp.where(g >= limit, limit, g)
        a, slope = self._act.value(z, xp), self._act.slope(z, xp)
        if limit is None:
            return a, slope
        slope = xp.where((g if before else a) >= limit, 0.0, slope)
        return (a if before else xp.where(a >= limit, limit, a)), slope

    def _linear(self, u: Array, xp: Namespace) -> Array:
        """The linear branch with its clamp."""
        return u if self.limit is None else limited(u, xp, -self.limit, self.limit)
