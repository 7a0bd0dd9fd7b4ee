"""What every activation of ours can do: one of a single array, and one that combines both branches."""

from collections.abc import Callable
from typing import Any

from portable_ffn._arrays.library import library, namespace
from portable_ffn._arrays.promotion import astype, result_dtype, through_float32
from portable_ffn._arrays.typing import Array, Namespace

Formula = Callable[[Array, Namespace], Array]


class Elementwise:
    """An activation of one array, given by `value` and `slope`: formulas of an array in float32 or float64.

    Called on an array of any library it works on each element: the shape and the library are the argument's, the
    dtype too (an integer one becomes the library's default float). Anything else is a TypeError.
    """

    # jax.jit and jax.checkpoint keep weak references to what they are given.
    __slots__ = ("__weakref__",)

    value: Any
    slope: Any

    def __call__(self, x: Array) -> Array:
        """The activation of x."""
        return self._on(self.value, x)

    def derivative(self, x: Array) -> Array:
        """The derivative at x; at a corner the one of the left side (0 for relu at 0)."""
        return self._on(self.slope, x)

    def combine(self, g: Array, u: Array | None, xp: Namespace) -> Array:
        """act(g), times u where the network is gated; half precision is rounded once."""

        def hidden(xp: Any, g: Array, u: Array | None = None) -> tuple[Array]:
            a = self.value(g, xp)
            return (a if u is None else a * u,)

        return through_float32(hidden, (g,) if u is None else (g, u), xp)[0]

    def gradients(self, g: Array, u: Array | None, d: Array, xp: Namespace) -> tuple[Array, Array, Array | None]:
        """The hidden layer, and the gradients of g and u, given d, that of itself."""

        def formula(xp: Any, g: Array, d: Array, u: Array | None = None) -> tuple[Array, ...]:
            a, slope = self.value(g, xp), self.slope(g, xp)
            return (a, d * slope) if u is None else (a * u, d * u * slope, d * a)

        found = through_float32(formula, (g, d) if u is None else (g, d, u), xp)
        return found if u is not None else (*found, None)

    def _on(self, formula: Formula, x: Array) -> Array:
        """A formula on an array of any library and dtype."""
        one = library(x)
        _, dtype = result_dtype(one, ("x",), (x,), autocast=False)
        with one.inside():
            return through_float32(lambda xp, h: (formula(h, xp),), (astype(x, dtype, one.xp),), one.xp)[0]


class Combiner:
    """A gate, given by `value` and `slopes`: formulas of both branches in float32 or float64."""

    # jax.jit and jax.checkpoint keep weak references to what they are given.
    __slots__ = ("__weakref__",)

    def gate(self, g: Array, u: Array) -> Array:
        """The hidden layer from both branches, (..., d_ff) each, of one dtype."""
        xp = namespace(g, u)
        with library(g).inside():
            return self.combine(g, u, xp)

    def gate_vjp(self, g: Array, u: Array, d: Array) -> tuple[Array, Array]:
        """The gradients of g and u, given that of the hidden layer; at a corner that of the clamped side."""
        xp = namespace(g, u, d)
        with library(g).inside():
            dg, du = through_float32(self.slopes, (g, u, d), xp)
        return dg, du

    def combine(self, g: Array, u: Array | None, xp: Namespace) -> Array:
        """gate(g, u), inside a network."""
        return through_float32(self.value, (g, u), xp)[0]

    def gradients(self, g: Array, u: Array | None, d: Array, xp: Namespace) -> tuple[Array, Array, Array | None]:
        """The hidden layer, and the gradients of its branches, given d, that of itself."""
        dg, du = through_float32(self.slopes, (g, u, d), xp)
        return self.combine(g, u, xp), dg, du

    def value(self, xp: Namespace, g: Array, u: Array) -> tuple[Array]:
        """The hidden layer."""
        raise NotImplementedError

    def slopes(self, xp: Namespace, g: Array, u: Array, d: Array) -> tuple[Array, Array]:
        """d times the derivatives of the hidden layer by g and by u."""
        raise NotImplementedError
