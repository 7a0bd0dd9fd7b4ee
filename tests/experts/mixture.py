"""Mixtures of experts for the tests: their arrays in NumPy, put into any library, and the oracle's answer."""

from typing import Any, NamedTuple

import numpy as np

from portable_ffn import Weights
from portable_ffn.experts import Router, Routing, feed_forward_experts
from tests.oracle.cases import numpy_dtype

GROUPS = (3, 2, "top2_sum")
# Each score, group value, weighting and side at least once.
ROUTINGS = {
    "switch": Routing(1),
    "mixtral": Routing(2, normalise=True),
    "olmoe": Routing(3),
    "deepseek-v2": Routing(2, groups=(3, 2, "max"), scale=1.75),
    "deepseek-v3": Routing(2, score="sigmoid", normalise=True, epsilon=1e-20, scale=2.5, groups=GROUPS),
    "lfm2": Routing(2, score="sigmoid", normalise=True, epsilon=1e-6),
    "sqrt-softplus": Routing(3, score="sqrt_softplus", normalise=True, scale=1.5),
    "gpt-oss": Routing(2, score="softmax_of_chosen"),
    "llama4": Routing(1, score="sigmoid", apply_to="input"),
}


class Given(NamedTuple):
    """The arguments of one mixture."""

    x: Any
    router: Router
    experts: Weights
    shared: Weights | None
    shared_gate: Any

    def map(self, f: Any) -> "Given":
        """f of every array, None where None."""
        g = lambda a: None if a is None else f(a)  # noqa: E731
        shared = None if self.shared is None else Weights(*map(g, self.shared))
        return Given(f(self.x), Router(*map(g, self.router)), Weights(*map(g, self.experts)), shared,
                     g(self.shared_gate))  # fmt: skip

    def flat(self) -> list[Any]:
        """The arrays that there are."""
        found: list[Any] = []
        self.map(lambda a: found.append(a) or a)
        return found

    def filled(self, arrays: Any) -> "Given":
        """The same with other arrays, in the order of `flat`."""
        arrays = iter(arrays)
        return self.map(lambda _: next(arrays))


def mixture(seed=0, *, E=6, d_model=5, d_ff=7, d_out=None, shape=(2, 4), gated=True, bias=True, shared=True, gate=True,
            selection_bias=True, dtype="float64", router_dtype=None, scale=1.0):  # fmt: skip
    rng, d_out = np.random.default_rng(seed), d_model if d_out is None else d_out
    router_dtype = numpy_dtype(router_dtype or dtype)

    def some(*of, kind=None):
        values = rng.normal(size=of) / np.sqrt(of[-2] if len(of) > 1 else 2)
        return values.astype(numpy_dtype(dtype) if kind is None else kind)

    def weights(*lead):
        W1, b1, W2, b2 = (some(*lead, *of) for of in ((d_model, d_ff), (d_ff,), (d_ff, d_out), (d_out,)))
        V, c = (some(*lead, d_model, d_ff), some(*lead, d_ff)) if gated else (None, None)
        return Weights(W1, b1, W2, b2, V, c) if bias else Weights(W1, None, W2, None, V, None)

    x = (scale * rng.normal(size=(*shape, d_model))).astype(numpy_dtype(dtype))
    router = Router(
        some(d_model, E, kind=router_dtype) * numpy_dtype(router_dtype).type(2),
        some(E, kind=router_dtype) if bias else None,
        (0.3 * some(E, kind=np.dtype("float64"))).astype(router_dtype) if selection_bias else None,
    )
    return Given(x, router, weights(E), weights() if shared else None, some(d_model, 1) if shared and gate else None)


def computed(given: Given, routing: Routing, activation: Any = "silu") -> Any:
    return feed_forward_experts(
        given.x, given.router, given.experts, routing=routing, activation=activation, shared=given.shared,
        shared_gate=given.shared_gate,
    )  # fmt: skip


def put(given: Given, backend: Any, dtypes: Any = None) -> Given:
    """The arrays in a backend's library, each in its own dtype or in that of all."""
    return given.map(lambda a: backend.put(np.asarray(a, "float64"), dtypes or a.dtype.name))
