"""An activation as an object: what `ACTIVATIONS` holds. And the one rule of half precision for elementwise work."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from portable_ffn._arrays.dtype import LOW_PRECISION, dtype_name
from portable_ffn._arrays.promotion import astype, library, result_dtype
from portable_ffn._arrays.typing import Array, Namespace

Formula = Callable[[Array, Namespace], Array]


def pair_through_float32(
    formula: Callable[..., tuple[Array, ...]],
    arrays: tuple[Array, ...],
    xp: Namespace,
) -> tuple[Array, ...]:
    """Some arrays from others of one dtype, computed in float32 where that is of half precision, and rounded once."""
    dtype = arrays[0].dtype
    with library(arrays[0]).quiet():
        if dtype_name(dtype) not in LOW_PRECISION:
            return formula(xp, *arrays)
        wide = formula(xp, *(astype(array, xp.float32, xp) for array in arrays))
        return tuple(astype(array, dtype, xp) for array in wide)


@dataclass(frozen=True, slots=True, repr=False)
class Named:
    """An activation that has a name.

    Called on an array of any library it works on each element: the shape and the library are the argument's, the
    dtype too (an integer one becomes the library's default float). Anything else is a TypeError.
    """

    name: str
    value: Formula
    slope: Formula

    def __repr__(self) -> str:
        return f"ACTIVATIONS[{self.name!r}]"

    def __call__(self, x: Array) -> Array:
        """The activation of x."""
        return self._on(self.value, x)

    def derivative(self, x: Array) -> Array:
        """The derivative at x; at a corner the one of the left side (0 for relu at 0)."""
        return self._on(self.slope, x)

    def combine(self, g: Array, u: Array | None, xp: Namespace) -> Array:
        """act(g), times u where the network is gated."""

        def hidden(xp: Any, g: Array, u: Array | None = None) -> tuple[Array]:
            a = self.value(g, xp)
            return (a if u is None else a * u,)

        return pair_through_float32(hidden, (g,) if u is None else (g, u), xp)[0]

    def _on(self, formula: Formula, x: Array) -> Array:
        """A formula on an array of any library and dtype."""
        one = library(x)
        _, dtype = result_dtype(one, ("x",), (x,))
        return pair_through_float32(lambda xp, h: (formula(h, xp),), (astype(x, dtype, one.xp),), one.xp)[0]
