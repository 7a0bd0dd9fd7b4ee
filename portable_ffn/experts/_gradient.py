"""The gradient of the mixture, written out: for libraries that have none of their own."""

from dataclasses import dataclass
from typing import Any

from portable_ffn._activations.resolve import resolve
from portable_ffn._arrays.arguments import one_library
from portable_ffn._arrays.dtype import COMPUTABLE, LOW_PRECISION, dtype_name, is_real_floating, refuse_dtype
from portable_ffn._arrays.errors import refusal
from portable_ffn._arrays.explain import explaining
from portable_ffn._arrays.kind import not_an_array
from portable_ffn._arrays.promotion import astype
from portable_ffn._arrays.shapes import shape_of
from portable_ffn._arrays.typing import Activation, Array
from portable_ffn._network.weights import Weights
from portable_ffn.experts._arguments import NAMES, Call, checked
from portable_ffn.experts._backward import ExpertGradients, backward
from portable_ffn.experts._layer import computed
from portable_ffn.experts._router import Router, Routing


def feed_forward_experts_vjp(
    x: Array,
    router: Router,
    experts: Weights,
    *,
    routing: Routing,
    activation: Activation = "silu",
    shared: Weights | None = None,
    shared_gate: Array | None = None,
) -> tuple[Array, "ExpertPullback"]:
    """The mixture and its pullback, the gradient of sum(y * dy) by every argument, on arrays of any library.

    Parameters
    ----------
    x, router, experts, routing, shared, shared_gate
        As in `feed_forward_experts`.
    activation : str, gate object or callable
        As in `portable_ffn.feed_forward_vjp`: a callable brings an attribute `derivative`, a gate object `gate_vjp`.

    Returns
    -------
    y : array, shape (..., d_model)
        As `feed_forward_experts` returns it.
    pullback : callable
        `pullback(dy) -> ExpertGradients(x, router, experts, shared, shared_gate)` for dy of y's shape and library.
        Each gradient has the shape and dtype of its argument (y's where that is an integer). It may be called again
        and again; until the last time the arguments must not be written to.

    Raises
    ------
    TypeError
        For a callable without `derivative` or a gate without `gate_vjp`, and as `feed_forward_experts` does.
    ValueError
        For a dy of another shape than y's, and as `feed_forward_experts` does.

    Notes
    -----
    The choice of experts is taken as fixed, so a selection bias has the gradient 0, and so has an expert without
    tokens. Sums over the tokens are made in float32 at least.

    References
    ----------
    Shazeer et al. 2017, Outrageously Large Neural Networks, section 2.1: the gradient through the gate.

    Examples
    --------
    >>> import numpy as np
    >>> from portable_ffn import Weights
    >>> from portable_ffn.experts import Router, Routing, feed_forward_experts_vjp
    >>> experts = Weights(np.array([[[1.0]], [[10.0]]]), None, np.ones((2, 1, 1)), None)
    >>> x, router = np.array([[2.0], [-3.0]]), Router(np.array([[1.0, -1.0]]))
    >>> y, pullback = feed_forward_experts_vjp(x, router, experts, routing=Routing(1, normalise=True),
    ...                                        activation="identity")
    >>> pullback(np.ones_like(y)).x
    array([[ 1.],
           [10.]])
    """
    call = checked(x, router, routing, experts, shared, shared_gate, activation)
    resolve(activation, call.experts.V is not None, differentiable=True)
    y = explaining(NAMES, call.arrays(), computed, call)
    return y, ExpertPullback(call, shape_of(y))


# jax.jit and jax.checkpoint keep weak references to what they are given.
@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ExpertPullback:
    """From the gradient of y to those of x, the router and all networks."""

    call: Call
    shape: tuple[int | None, ...]

    def __call__(self, dy: Array) -> ExpertGradients:
        """The gradients, given that of y."""
        self._check(dy)
        return explaining((*NAMES, "dy"), (*self.call.arrays(), dy), self._gradients, dy)

    def _gradients(self, dy: Array) -> ExpertGradients:
        """All of them, each in its argument's dtype."""
        call, one = self.call, self.call.library
        wide = one.dtype("float32") if call.name in LOW_PRECISION else call.dtype
        with one.inside():
            return _narrowed(call, backward(call, astype(dy, wide, one.xp), wide))

    def _check(self, dy: Array) -> None:
        """Raise unless dy can be the gradient of y."""
        if dy is None:
            raise not_an_array("dy", dy)
        one_library(("x", "dy"), (self.call.x, dy))
        if dtype_name(dy.dtype) not in COMPUTABLE:
            raise refuse_dtype("dy", dy.dtype)
        got, must = shape_of(dy), self.shape
        if len(got) != len(must) or any(None not in (m, n) and m != n for m, n in zip(got, must, strict=True)):
            raise refusal(ValueError, "dy", f"must have the shape of y, {must}, got {got}", "no gradient is broadcast")


def _narrowed(call: Call, found: ExpertGradients) -> ExpertGradients:
    """Each gradient in its argument's dtype, in that of y where the argument is an integer."""

    def narrow(d: Any, array: Any) -> Any:
        if d is None or array is None:
            return None
        return astype(d, array.dtype if is_real_floating(array.dtype) else call.dtype, call.library.xp)

    shared = None if found.shared is None else Weights(*map(narrow, found.shared, call.shared or ()))
    return ExpertGradients(
        narrow(found.x, call.x),
        Router(*map(narrow, found.router, call.router)),
        Weights(*map(narrow, found.experts, call.experts)),
        shared,
        narrow(found.shared_gate, call.shared_gate),
    )
