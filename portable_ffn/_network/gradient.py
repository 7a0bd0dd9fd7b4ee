"""The gradient of the network, written out: for libraries that have none of their own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from portable_ffn._activations.resolve import resolve
from portable_ffn._activations.slopes import Resolved, differentiable
from portable_ffn._arrays.arguments import explain_devices, one_library
from portable_ffn._arrays.dtype import COMPUTABLE, dtype_name, is_real_floating, refuse_dtype
from portable_ffn._arrays.library import not_an_array
from portable_ffn._arrays.promotion import Library, astype, library, result_dtype
from portable_ffn._arrays.shapes import NAMES, shape_of
from portable_ffn._arrays.typing import Activation, Array, DType, Namespace
from portable_ffn._arrays.validated import validated
from portable_ffn._native.table import NATIVE
from portable_ffn._network.feed_forward import feed_forward
from portable_ffn._network.generic import whole
from portable_ffn._network.weights import Weights


def _numpy() -> Any:
    from portable_ffn._native.numpy import gradient as _gradient_numpy

    return _gradient_numpy


# A room a library that does it in bounded memory, and faster: its `forward` returns y and what `gradients` can use
# again, each returns None for a case that it leaves to functions of the standard. Speed only, as in `_native`.
ROOMS: Mapping[str, Callable[[], Any]] = {"numpy": _numpy}


def feed_forward_vjp(
    x: Array,
    W1: Array,
    b1: Array | None,
    W2: Array,
    b2: Array | None,
    V: Array | None = None,
    c: Array | None = None,
    *,
    activation: Activation = "relu",
) -> tuple[Array, "Pullback"]:
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
    act = differentiable(resolve(activation, V is not None))
    arrays = (x, W1, b1, W2, b2, V, c)
    one, name, dtype = validated(arrays)
    room = _room(one)
    if room is not None:
        with one.quiet():
            found = room.forward(arrays, act, dtype, one.dtype(one.computing(name)))
        if found is not None:
            return found[0], Pullback(arrays, act, found[0].shape, found[1])
    y = feed_forward(*arrays, activation=activation)
    return y, Pullback(arrays, act, shape_of(y))


@dataclass(frozen=True, slots=True, eq=False)
class Pullback:
    """From the gradient of y to those of x and the weights."""

    arrays: tuple[Array, ...]
    act: Resolved
    shape: tuple[int | None, ...]
    kept: Any = None

    def __call__(self, dy: Array) -> tuple[Array, Weights]:
        """The gradients of x and of the weights, given that of y."""
        self._check(dy)
        one = library(self.arrays[0])
        name, dtype = result_dtype(one, NAMES, self.arrays)
        computing = one.dtype(one.computing(name))
        room, found = _room(one), None
        try:
            with one.quiet():
                if room is not None:
                    found = room.gradients(self.arrays, self.act, computing, dy, self.kept)
                if found is None:
                    found = whole(one.xp, self.arrays, self.act, computing, dy)
                dx, *rest = (_narrowed(d, a, dtype, one.xp) for d, a in zip(found, self.arrays, strict=True))
        except ValueError as error:
            explained = explain_devices((*NAMES, "dy"), (*self.arrays, dy))
            if explained is None:
                raise
            raise explained from error
        return dx, Weights(*rest)

    def _check(self, dy: Array) -> None:
        """Raise unless dy can be the gradient of y."""
        if dy is None:
            raise not_an_array("dy", dy)
        try:
            one_library(("x", "dy"), (self.arrays[0], dy))
        except (TypeError, ValueError) as error:
            # The way out is another one: dy has no method `to` of ours.
            raise type(error)(str(error).partition("; move the weights")[0] + "; convert dy") from None
        if dtype_name(dy.dtype) not in COMPUTABLE:
            raise refuse_dtype("dy", dy.dtype)
        got, must = shape_of(dy), self.shape
        if len(got) != len(must) or any(None not in (m, n) and m != n for m, n in zip(got, must, strict=True)):
            raise ValueError(f"dy must have the shape of y, {must}, got {got}; no gradient is broadcast")


def _room(one: Library) -> Any:
    """The library's own room, where its native ways are not switched off; else None."""
    load = ROOMS.get(one.name)
    return None if load is None or one.name not in NATIVE else load()


def _narrowed(d: Array | None, array: Array | None, dtype: DType, xp: Namespace) -> Array | None:
    """A gradient in its argument's dtype, in the result's where the argument is an integer."""
    if d is None or array is None:
        return None
    return astype(d, array.dtype if is_real_floating(array.dtype) else dtype, xp)
