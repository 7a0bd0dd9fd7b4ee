"""All that must hold of the arguments of one call: shapes are read, no element."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from portable_ffn._activations.resolve import Hidden, resolve
from portable_ffn._arrays.arguments import one_library
from portable_ffn._arrays.kind import kind_of
from portable_ffn._arrays.library import Library
from portable_ffn._arrays.promotion import result_dtype
from portable_ffn._arrays.shapes import shape_of
from portable_ffn._arrays.typing import Activation, Array, DType
from portable_ffn._network.weights import Weights
from portable_ffn.experts._router import Router, Routing


class Call(NamedTuple):
    """The arguments of one call, which fit together; `name` and `dtype` are those of the result."""

    library: Library
    x: Array
    router: Router
    routing: Routing
    experts: Weights
    shared: Weights | None
    shared_gate: Array | None
    activation: Activation
    act: Hidden
    name: str
    dtype: DType

    def arrays(self) -> tuple[Array | None, ...]:
        """Every array of the call, in the order of `NAMES`."""
        shared = (None,) * 6 if self.shared is None else self.shared
        return self.x, *self.router, *self.experts, *shared, self.shared_gate


ROUTER_NAMES = ("x", "router.W", "router.b", "router.selection_bias")
NAMES = (
    *ROUTER_NAMES,
    *(f"experts.{field}" for field in Weights._fields),
    *(f"shared.{field}" for field in Weights._fields),
    "shared_gate",
)


def checked(
    x: Array, router: Router, routing: Routing, experts: Weights, shared: Any, shared_gate: Any, activation: Activation
) -> Call:
    """The call; raises TypeError for the wrong kind of thing, ValueError for shapes and numbers that don't fit."""
    router, routing = _kinds(router, routing)
    experts = _weights("experts", experts)
    if shared is not None:
        shared = _weights("shared", shared)
    elif shared_gate is not None:
        raise ValueError("shared_gate must come with shared, the network that it gates; pass shared, or None for it")
    act = resolve(activation, experts.V is not None)
    if shared is not None and (shared.V is not None) != (experts.V is not None):
        resolve(activation, shared.V is not None)  # a gate needs V there too
    given = (x, *router, *experts, *((None,) * 6 if shared is None else shared), shared_gate)
    one = one_library(NAMES, given)
    faults = [*_router_faults(x, router, routing), *_expert_faults(x, router, experts)]
    if shared is not None and not faults:
        faults = list(_shared_faults(x, experts, shared, shared_gate))
    if faults:
        raise ValueError("; ".join(faults))
    # A router in a wider dtype decides better; what is computed is the experts' dtype all the same.
    networks = [(NAMES[0], x), *zip(NAMES[4:-1], given[4:-1], strict=True)]
    name, dtype = result_dtype(one, *zip(*networks, strict=True))
    return Call(one, x, router, routing, experts, shared, shared_gate, activation, act, name, dtype)


def checked_router(x: Array, router: Router, routing: Routing) -> tuple[Library, Router]:
    """The library of x and a router that fit together."""
    router, routing = _kinds(router, routing)
    one = one_library(ROUTER_NAMES, (x, *router))
    faults = list(_router_faults(x, router, routing))
    if faults:
        raise ValueError("; ".join(faults))
    return one, router


def _kinds(router: Any, routing: Any) -> tuple[Router, Routing]:
    """A Router and a Routing, else TypeError."""
    if not isinstance(router, Router):
        raise TypeError(f"router must be a Router(W, b=None, selection_bias=None), got {kind_of(router)}")
    if router.W is None:
        raise TypeError("router.W must be an array, got None; only b and selection_bias may be None")
    if not isinstance(routing, Routing):
        raise TypeError(f"routing must be a Routing(top_k, ...), got {kind_of(routing)}")
    return router, routing


def _weights(name: str, weights: Any) -> Weights:
    """A Weights with W1 and W2, else TypeError."""
    if not isinstance(weights, Weights):
        raise TypeError(f"{name} must be a Weights(W1, b1, W2, b2, V=None, c=None), got {kind_of(weights)}")
    for field in ("W1", "W2"):
        if getattr(weights, field) is None:
            raise TypeError(f"{name}.{field} must be an array, got None; only biases and V may be None")
    return weights


def _router_faults(x: Array, router: Router, routing: Routing) -> Iterator[str]:
    """What is wrong with the shapes of x and the router, and with the routing for so many experts."""
    features, shape = shape_of(x), shape_of(router.W)
    if not features:
        yield "x must have shape (..., d_model), at least one axis, got a 0-d array; reshape it to (d_model,)"
        return
    if len(shape) != 2 or _differ(shape[0], features[-1]):
        turned = "; transpose it" if len(shape) == 2 and shape[1] == features[-1] else ""
        yield f"router.W must have shape (d_model, E) with d_model = {features[-1]} as x has, got {shape}{turned}"
        return
    experts = shape[1]
    for field in ("b", "selection_bias"):
        bias = getattr(router, field)
        if bias is not None and (bias.ndim != 1 or _differ(shape_of(bias)[0], experts)):
            yield f"router.{field} must have shape (E,) = ({experts},), got {shape_of(bias)}; no bias is broadcast"
    if experts is not None:
        yield from routing_faults(experts, routing)


def routing_faults(experts: int, routing: Routing) -> Iterator[str]:
    """What of the routing can't be done with so many experts."""
    allowed, of = experts, f"the {experts} experts"
    if routing.groups is not None:
        n_groups, top_groups, value = routing.groups
        if experts % n_groups:
            yield f"groups: n_groups must divide E = {experts}, got {n_groups}"
            return
        size = experts // n_groups
        if value == "top2_sum" and size < 2:
            yield f'groups: "top2_sum" needs groups of two experts or more, got {n_groups} groups of {size}; use "max"'
        allowed, of = top_groups * size, f"top_groups times the size of a group, {top_groups} * {size}"
    if routing.top_k > allowed:
        yield f"top_k must be at most {of}, got {routing.top_k}"


def _expert_faults(x: Array, router: Router, experts: Weights) -> Iterator[str]:
    """What is wrong with the shapes of the experts."""
    inward, outward = shape_of(experts.W1), shape_of(experts.W2)
    if len(inward) != 3:
        yield f"experts.W1 must have shape (E, d_model, d_ff), got {inward}; stack the networks on a leading axis"
        return
    d_model, d_ff = (shape_of(x) or (None,))[-1], inward[2]
    count = shape_of(router.W)[1] if router.W.ndim == 2 else inward[0]
    turned_round = len(outward) == 3 and outward[1] != d_ff and outward[2] == d_ff
    out = outward[1 if turned_round else 2] if len(outward) == 3 else None
    wanted = {
        "W1": ("(E, d_model, d_ff)", (count, d_model, d_ff)),
        "b1": ("(E, d_ff)", (count, d_ff)),
        "W2": ("(E, d_ff, d_model)", (count, d_ff, out)),
        "b2": ("(E, d_model)", (count, out)),
        "V": ("(E, d_model, d_ff)", (count, d_model, d_ff)),
        "c": ("(E, d_ff)", (count, d_ff)),
    }
    for field, (symbols, must) in wanted.items():
        array = getattr(experts, field)
        if array is None:
            continue
        if field == "c" and experts.V is None:
            yield "experts.c must come with experts.V: it is the bias of the linear branch; pass V, or None for c"
            continue
        got = shape_of(array)
        if len(got) != len(must) or any(_differ(n, m) for n, m in zip(got, must, strict=True)):
            turned = ""
            if len(got) == 3 and len(must) == 3 and (got[0], got[2], got[1]) == must:
                turned = "; transpose the last two axes"
            yield f"experts.{field} must have shape {symbols} = {_words(must)}, got {_words(got)}{turned}"


def _shared_faults(x: Array, experts: Weights, shared: Weights, gate: Array | None) -> Iterator[str]:
    """What is wrong with the shapes of the shared network and its gate."""
    from portable_ffn._arrays.shapes import check_shapes

    try:
        check_shapes(x, *shared)
    except ValueError as error:
        yield f"shared: {error}"
        return
    d_model, out = shape_of(x)[-1], shape_of(experts.W2)[2]
    if _differ(shape_of(shared.W2)[1], out):
        yield f"shared.W2 must have as many columns as experts.W2, {out}, got {shape_of(shared.W2)[1]}"
    if gate is not None and (gate.ndim != 2 or _differ(shape_of(gate)[0], d_model) or _differ(shape_of(gate)[1], 1)):
        yield f"shared_gate must have shape (d_model, 1) = ({d_model}, 1), got {_words(shape_of(gate))}"


def _differ(n: int | None, m: int | None) -> bool:
    """Whether two lengths are known and differ."""
    return n is not None and m is not None and n != m


def _words(shape: tuple[int | None, ...]) -> str:
    """A shape in words."""
    told = ", ".join("unknown" if n is None else str(n) for n in shape)
    return f"({told}{',' if len(shape) == 1 else ''})"
