"""The two fronts: `route`, who is chosen with what weight, and `feed_forward_experts`, the whole layer."""

from portable_ffn._arrays.explain import explaining
from portable_ffn._arrays.promotion import astype, result_dtype
from portable_ffn._arrays.typing import Activation, Array
from portable_ffn._native import table
from portable_ffn._network.weights import Weights
from portable_ffn.experts._arguments import NAMES, ROUTER_NAMES, Call, checked, checked_router
from portable_ffn.experts._generic import block, mix, routed
from portable_ffn.experts._router import Router, Routing


def route(x: Array, router: Router, routing: Routing) -> tuple[Array, Array]:
    """The experts that each position is given, best first, and their weights.

    Parameters
    ----------
    x : array, shape (..., d_model)
    router : Router
        Arrays of the library of x.
    routing : Routing

    Returns
    -------
    weights : array, shape (..., top_k)
        In the widest real floating dtype of x and the router; computed in float32 at least.
    indices : array, shape (..., top_k)
        Of the library's default integer dtype. Ties are given to the lower index.

    Raises
    ------
    TypeError
        For a router or routing of another kind, and as `portable_ffn.feed_forward` does.
    ValueError
        Shapes that don't fit, a top_k beyond the experts that may be chosen, groups that don't divide them.

    References
    ----------
    Shazeer et al. 2017, Outrageously Large Neural Networks, section 2.1.

    Examples
    --------
    >>> import numpy as np
    >>> from portable_ffn.experts import Router, Routing, route
    >>> weights, indices = route(np.array([[1.0]]), Router(np.log([[1.0, 5.0, 4.0]])), Routing(2))
    >>> indices, weights.round(6)
    (array([[1, 2]]), array([[0.5, 0.4]]))
    """
    one, router = checked_router(x, router, routing)
    arrays = (x, *router)
    _, dtype = result_dtype(one, ROUTER_NAMES, arrays)

    def compute() -> tuple[Array, Array]:
        with one.inside():
            weights, indices, _ = routed(one, x, router, routing)
            return astype(weights, dtype, one.xp), indices

    return explaining(ROUTER_NAMES, arrays, compute)


def feed_forward_experts(
    x: Array,
    router: Router,
    experts: Weights,
    *,
    routing: Routing,
    activation: Activation = "silu",
    shared: Weights | None = None,
    shared_gate: Array | None = None,
) -> Array:
    """A mixture of experts: each position is the weighted sum of the networks that the router chose for it.

    Parameters
    ----------
    x : array, shape (..., d_model)
    router : Router
        W of shape (d_model, E); b and selection_bias of shape (E,), or None.
    experts : Weights
        The E networks, each array with a leading axis of E: W1 (E, d_model, d_ff), b1 (E, d_ff), W2
        (E, d_ff, d_model), b2 (E, d_model), V like W1 and c like b1; all but W1 and W2 may be None.
    routing : Routing
        How scores become a choice and weights.
    activation : str, gate object or callable
        As in `portable_ffn.feed_forward`; for the experts and the shared network.
    shared : Weights or None
        A network that every position goes through, whose output is added.
    shared_gate : array, shape (d_model, 1), or None
        With it, the shared output is multiplied by sigmoid(x shared_gate).

    Returns
    -------
    array, shape (..., d_model)
        Of the library and on the device of x, in the widest real floating dtype of x, the experts and the shared
        network: a router in float32 doesn't widen it.

    Raises
    ------
    TypeError
        For a router, routing or weights of another kind, and as `portable_ffn.feed_forward` does.
    ValueError
        Shapes that don't fit, a top_k beyond the experts that may be chosen, groups that don't divide them, a
        shared_gate without shared, an unknown activation, a gate without V, two devices.

    Notes
    -----
    NaN in a position stays in it, and what an expert makes of positions that it wasn't chosen for never shows.
    NumPy, PyTorch and JAX compute each expert on its own positions alone; on other libraries every expert computes all.

    References
    ----------
    Shazeer et al. 2017, Outrageously Large Neural Networks, equation 1.
    DeepSeek-AI 2024, DeepSeekMoE, equations 9 to 11: shared experts.

    Examples
    --------
    >>> import numpy as np
    >>> from portable_ffn import Weights
    >>> from portable_ffn.experts import Router, Routing, feed_forward_experts
    >>> experts = Weights(np.array([[[1.0]], [[10.0]]]), None, np.ones((2, 1, 1)), None)
    >>> x, router = np.array([[2.0], [-3.0]]), Router(np.array([[1.0, -1.0]]))
    >>> feed_forward_experts(x, router, experts, routing=Routing(1, normalise=True), activation="identity")
    array([[  2.],
           [-30.]])
    """
    call = checked(x, router, routing, experts, shared, shared_gate, activation)
    return explaining(NAMES, call.arrays(), computed, call)


def computed(call: Call) -> Array:
    """The mixture of arguments that were checked: by the library's own row, else in functions of the standard."""
    row = table.row(call.library.name)
    y = None if row is None or row.experts is None else row.experts(call, block)
    if y is None:
        with call.library.inside():
            y = block(call, mix)
    return y
