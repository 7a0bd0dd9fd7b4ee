"""The gradient of the network, written out: for libraries that have none of their own."""

from dataclasses import dataclass
from typing import Any

from portable_ffn._activations.resolve import Hidden, resolve
from portable_ffn._arrays.arguments import Call, checked, one_library
from portable_ffn._arrays.dtype import COMPUTABLE, dtype_name, is_real_floating, refuse_dtype
from portable_ffn._arrays.errors import refusal
from portable_ffn._arrays.explain import explaining
from portable_ffn._arrays.kind import not_an_array
from portable_ffn._arrays.promotion import astype
from portable_ffn._arrays.shapes import NAMES, shape_of
from portable_ffn._arrays.typing import Array, ArrayT, KnownActivation
from portable_ffn._native import table
from portable_ffn._network import generic
from portable_ffn._network.feed_forward import network
from portable_ffn._network.weights import Weights


def feed_forward_vjp(
    x: ArrayT,
    W1: Array,
    b1: Array | None,
    W2: Array,
    b2: Array | None,
    V: Array | None = None,
    c: Array | None = None,
    *,
    activation: KnownActivation = "relu",
) -> tuple[ArrayT, "Pullback"]:
    """The network and its pullback, the gradient of sum(y * dy) by every argument, on arrays of any library.

    Parameters
    ----------
    x, W1, b1, W2, b2, V, c
        As in `feed_forward`.
    activation : str, gate object or callable
        As in `feed_forward`. A callable brings an attribute `derivative`, a function of the same array; a gate object
        a method `gate_vjp(g, u, d)` that returns the gradients of g and u, given d, that of the hidden layer.

    Returns
    -------
    y : array, shape (..., d_model)
        As `feed_forward` returns it.
    pullback : callable
        `pullback(dy) -> (dx, Weights)` for dy of y's shape, library and device, in any dtype. Each gradient has the
        shape and dtype of its argument (y's where that is an integer), and is None where that is None. It may be
        called again and again; until the last time the arguments must not be written to, since it keeps these.

    Raises
    ------
    TypeError
        For a callable without `derivative` or a gate without `gate_vjp`; for a dy of another library; and as
        `feed_forward` does.
    ValueError
        For a dy of another shape than y's; and as `feed_forward` does.

    Notes
    -----
    At a corner of the activation the derivative is that of the left side: 0 for relu at 0. Sums over the tokens are
    made in float32 at least. NumPy works in blocks of rows: whatever the number of tokens, the pullback keeps at most
    64 MiB of the hidden layer, and computes the rest anew.

    References
    ----------
    Rumelhart, Hinton and Williams 1986, Learning representations by back-propagating errors, equations 4 to 7.

    Examples
    --------
    >>> import numpy as np
    >>> from portable_ffn import Weights, feed_forward_vjp
    >>> weights = Weights(np.array([[1.0, -1.0]]), np.array([0.0, 0.5]), np.array([[2.0], [3.0]]), np.array([1.0]))
    >>> y, pullback = feed_forward_vjp(np.array([[2.0], [-2.0]]), *weights)
    >>> dx, gradient = pullback(np.ones_like(y))
    >>> dx
    array([[ 2.],
           [-3.]])
    >>> gradient.b1
    array([2., 3.])
    """
    act = resolve(activation, V is not None, differentiable=True)
    call = checked(NAMES, (x, W1, b1, W2, b2, V, c), act)
    row = table.row(call.library.name)
    if row is not None and row.gradient is not None:
        with call.library.inside():
            found = row.gradient.forward(call)
        if found is not None:
            return found[0], Pullback(call, found[0].shape, found[1])
    y = network(call)
    return y, Pullback(call, shape_of(y))


# jax.jit and jax.checkpoint keep weak references to what they are given.
@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Pullback:
    """From the gradient of y to those of x and the weights."""

    call: Call
    shape: tuple[int | None, ...]
    kept: Any = None

    def __reduce__(self) -> Any:
        """Without the library's functions, which can't be pickled: they are found again."""
        return _again, (self.call.arrays, self.call.act, self.shape, self.kept)

    def __call__(self, dy: Array) -> tuple[Array, Weights]:
        """The gradients of x and of the weights, given that of y."""
        self._check(dy)
        dx, *rest = explaining((*NAMES, "dy"), (*self.call.arrays, dy), self._gradients, dy)
        return dx, Weights(*rest)

    def _check(self, dy: Array) -> None:
        """Raise unless dy can be the gradient of y."""
        if dy is None:
            raise not_an_array("dy", dy)
        one_library(("x", "dy"), (self.call.arrays[0], dy))
        if dtype_name(dy.dtype) not in COMPUTABLE:
            raise refuse_dtype("dy", dy.dtype)
        got, must = shape_of(dy), self.shape
        if len(got) != len(must) or any(None not in (m, n) and m != n for m, n in zip(got, must, strict=True)):
            raise refusal(ValueError, "dy", f"must have the shape of y, {must}, got {got}", "no gradient is broadcast")

    def _gradients(self, dy: Array) -> list[Array | None]:
        """All seven, each in its argument's dtype, in the result's where the argument is an integer."""
        one, arrays, _, _, dtype = self.call
        row, found = table.row(one.name), None
        with one.inside():
            if row is not None and row.gradient is not None:
                found = row.gradient.gradients(self.call, dy, self.kept)
            if found is None:
                found = generic.gradients(self.call, dy)
            return [
                None
                if d is None or array is None
                else astype(d, array.dtype if is_real_floating(array.dtype) else dtype, one.xp)
                for d, array in zip(found, arrays, strict=True)
            ]


def _again(arrays: tuple[Array, ...], act: Hidden, shape: tuple[int | None, ...], kept: Any) -> Pullback:
    """A pullback that was pickled."""
    return Pullback(checked(NAMES, arrays, act), shape, kept)
