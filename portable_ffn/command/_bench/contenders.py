"""What the bench measures in each library: the floor of bare products, the network, and what a user would write."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from portable_ffn import Weights, feed_forward
from portable_ffn._arrays.typing import ActivationName

Array = Any
Run = Callable[[], Any]

GATED = {"silu": True}  # activation -> gated; SwiGLU stands for all gated networks


class Contenders(NamedTuple):
    """Functions of no argument that each compute one result and wait for it; a note where there is no hand-written."""

    floor: Run
    ours: Run
    hand: Run | None
    note: str = ""

    def runs(self) -> dict[str, Run]:
        """Those that there are, by name."""
        every = {"floor": self.floor, "ours": self.ours, "hand": self.hand}
        return {name: run for name, run in every.items() if run is not None}


def half_contenders(x: Array, weights: Weights, activation: ActivationName) -> Contenders:
    """In half precision the floor is the network in float32 with every cast there and back."""

    def floor() -> Any:
        wide = Weights(x, None, None, None).to(dtype="float32").W1
        y = feed_forward(wide, *weights.to(dtype="float32"), activation=activation)
        return Weights(y, None, None, None).to(dtype=x.dtype).W1

    note = "in half precision the floor is the network in float32 with its casts, and nothing is written by hand"
    return Contenders(floor, lambda: feed_forward(x, *weights, activation=activation), None, note)


def numpy_contenders(x: Array, weights: Weights, activation: ActivationName, train: bool) -> Contenders:
    """Plain NumPy, its exact GELU by SciPy's erf."""
    import numpy as np

    W1, b1, W2, b2, V, c = weights
    erf = _erf() if activation == "gelu" else None
    act: Mapping[str, Callable[[Array], Array]] = {
        "relu": lambda h: np.maximum(0, h),
        "silu": lambda h: h / (1 + np.exp(-h)),
        "gelu_tanh": lambda h: 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi).astype(h.dtype) * (h + 0.044715 * h**3))),
        "gelu": lambda h: 0.5 * h * (1 + erf(h * h.dtype.type(0.5**0.5))) if erf else h,
    }
    flat = x.reshape(-1, x.shape[-1])

    def floor() -> Any:
        linear = None if V is None else flat @ V
        return flat @ W1 @ W2, linear

    def hand() -> Any:
        a = act[activation](x @ W1 if b1 is None else x @ W1 + b1)
        if V is not None:
            a = a * (x @ V if c is None else x @ V + c)
        return a @ W2 if b2 is None else a @ W2 + b2

    def ours() -> Any:
        return feed_forward(x, *weights, activation=activation)

    if activation == "gelu" and erf is None:
        return Contenders(floor, ours, None, "the hand-written gelu of NumPy needs SciPy's erf, and SciPy is not here")
    return Contenders(floor, ours, hand)


def _erf() -> Callable[[Array], Array] | None:
    """SciPy's erf, what a user of NumPy reaches for; None where SciPy isn't there."""
    try:
        found: Callable[[Array], Array] = importlib.import_module("scipy.special").erf
    except ImportError:
        return None
    return found


def torch_contenders(x: Array, weights: Weights, activation: ActivationName, train: bool) -> Contenders:
    """The chain of F.linear that nn.Sequential(Linear, activation, Linear) runs, without the modules' own cost."""
    import torch
    import torch.nn.functional as F

    act: Mapping[str, Callable[[Array], Array]] = {
        "relu": F.relu,
        "silu": F.silu,
        "gelu_tanh": lambda h: F.gelu(h, approximate="tanh"),
        "gelu": F.gelu,
    }
    W1, W2, V = weights.W1, weights.W2, weights.V
    # PyTorch holds a weight as (out, in).
    turned: list[Any] = [
        None if w is None else w.t().contiguous().clone() if w.dim() == 2 else w.clone() for w in weights
    ]

    def chain(x: Array) -> Array:
        w1, b1, w2, b2, v, c = turned
        a = act[activation](F.linear(x, w1, b1))
        return F.linear(a if v is None else a * F.linear(x, v, c), w2, b2)

    flat = x.reshape(-1, x.shape[-1])

    def floor() -> Any:
        with torch.no_grad():
            linear = None if V is None else torch.mm(flat, V)
            return torch.mm(torch.mm(flat, W1), W2), linear

    if not train:

        def quietly(run: Run) -> Run:
            def inner() -> Any:
                with torch.no_grad():
                    return run()

            return inner

        return Contenders(
            floor,
            quietly(lambda: feed_forward(x, *weights, activation=activation)),
            quietly(lambda: chain(x)),
        )
    ours_in = x.clone().requires_grad_()
    learned = [None if w is None else w.clone().requires_grad_() for w in weights]

    def trained(forward: Run, leaves: list[Array]) -> Run:
        def inner() -> Any:
            for leaf in leaves:
                leaf.grad = None
            forward().sum().backward()

        return inner

    hand_in = x.clone().requires_grad_()
    for w in turned:
        if w is not None:
            w.requires_grad_()
    return Contenders(
        floor,
        trained(
            lambda: feed_forward(ours_in, *learned, activation=activation),
            [ours_in, *(w for w in learned if w is not None)],
        ),
        trained(lambda: chain(hand_in), [hand_in, *(w for w in turned if w is not None)]),
    )


def jax_contenders(x: Array, weights: Weights, activation: ActivationName, train: bool) -> Contenders:
    """The bare formula of jax.nn under jit; in training both are under one jit with their gradient."""
    import jax

    act: Mapping[str, Callable[[Array], Array]] = {
        "relu": jax.nn.relu,
        "silu": jax.nn.silu,
        "gelu_tanh": jax.nn.gelu,
        "gelu": lambda h: jax.nn.gelu(h, approximate=False),
    }

    def bare(x: Array, W1: Array, b1: Array, W2: Array, b2: Array, V: Array, c: Array) -> Array:
        a = act[activation](x @ W1 if b1 is None else x @ W1 + b1)
        if V is not None:
            a = a * (x @ V if c is None else x @ V + c)
        return a @ W2 if b2 is None else a @ W2 + b2

    def products(x: Array, W1: Array, W2: Array, V: Array) -> Any:
        flat = x.reshape(-1, x.shape[-1])
        return flat @ W1 @ W2, None if V is None else flat @ V

    W1, _, W2, _, V, _ = weights
    compiled = jax.jit(products)

    def waiting(run: Run) -> Run:
        block: Callable[[Any], Any] = jax.block_until_ready
        return lambda: block(run())

    floor = waiting(lambda: compiled(x, W1, W2, V))
    if train:
        given = tuple(i for i, w in enumerate((x, *weights)) if w is not None)
        ours = jax.jit(
            jax.grad(lambda x, *w: feed_forward(x, *w, activation=activation).sum(), argnums=given),
        )
        hand = jax.jit(jax.grad(lambda x, *w: bare(x, *w).sum(), argnums=given))
        return Contenders(floor, waiting(lambda: ours(x, *weights)), waiting(lambda: hand(x, *weights)))
    hand = jax.jit(bare)
    return Contenders(
        floor,
        waiting(lambda: feed_forward(x, *weights, activation=activation)),
        waiting(lambda: hand(x, *weights)),
    )


CONTENDERS: Mapping[str, Callable[..., Contenders]] = {
    "numpy": numpy_contenders,
    "torch": torch_contenders,
    "jax": jax_contenders,
}
