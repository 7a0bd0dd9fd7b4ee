"""JAX's row of the mixture: tokens gathered by expert in blocks of rows, whose number is known where it is traced.

jax.lax.ragged_dot is what accelerators have for this. On a CPU XLA computes it as E dense products (JAX 0.10: nine
times one product's time for E = 8), so there a block of one expert's tokens is computed after the other.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from portable_ffn._activations.gates import ClippedGate
from portable_ffn._activations.named import Named
from portable_ffn._arrays.typing import Array
from portable_ffn._native.jax.network import _combine, _network, _traced

# Fewer rows read an expert's weights too often, more leave too many of the last block's rows empty.
ROWS = 128
MOST = 256
_compiled: dict[Any, Callable[..., Array]] = {}


def experts(call: Any, block: Any) -> Array | None:
    """The mixture; None for a user's own function or gate, and where nothing traces for arrays on several devices."""
    key = _key(call.act)
    if key is None:
        return None
    arrays = call.arrays()
    if any(array is not None and not array.size for array in arrays):
        return None
    if _traced(arrays):
        return block(call, mix)
    if any(len(array.devices()) > 1 for array in arrays if array is not None):
        return None
    asked = key, call.routing, call.name
    compiled = _compiled.get(asked) or _compile(asked, call, block)
    return compiled(call.x, call.router, call.experts, call.shared, call.shared_gate)


def _key(act: Any) -> Any:
    """What tells an activation from others by its value; None for a user's own."""
    return act.name if isinstance(act, Named) else act if type(act) is ClippedGate else None


def _compile(asked: Any, call: Any, block: Any) -> Callable[..., Array]:
    """The mixture of one activation, routing and dtype as one function of arrays."""
    rest = call._replace(x=None, router=None, experts=None, shared=None, shared_gate=None)

    def feed_forward_experts(x: Array, router: Any, experts: Any, shared: Any, shared_gate: Any) -> Array:
        given = rest._replace(x=x, router=router, experts=experts, shared=shared, shared_gate=shared_gate)
        y: Array = block(given, mix)
        return y

    if len(_compiled) >= MOST:
        _compiled.clear()
    compiled = _compiled[asked] = jax.jit(feed_forward_experts)
    return compiled


def mix(given: Any) -> Array:
    """The experts' sum, each on its own tokens, in blocks of rows of one expert."""
    lead, k, E = given.x.shape[:-1], given.indices.shape[-1], given.experts.W1.shape[0]
    out = given.experts.W2.shape[2]
    x = given.x.reshape(-1, given.x.shape[-1]).astype(given.dtype)
    choices = x.shape[0] * k
    rows = min(ROWS, 1 << max(0, (choices // E)).bit_length())
    blocks = min(choices, choices // rows + E)
    place, expert_of, used = _places(given.indices.reshape(-1), E, rows, blocks)
    # Rows that no choice fills take the token beyond the last, which is 0.
    token = jnp.full((blocks * rows,), x.shape[0]).at[place].set(jnp.arange(choices) // k)
    weight = jnp.zeros((blocks * rows, 1), given.wide).at[place, 0].set(given.weights.reshape(-1))
    combine = _combine(_key(given.act), given.act)

    def of_block(number: Array) -> Array:
        inside = jnp.take(
            x, jax.lax.dynamic_slice_in_dim(token, number * rows, rows), axis=0, mode="fill", fill_value=0
        )
        own = jax.lax.dynamic_slice_in_dim(weight, number * rows, rows)
        if given.on_input:
            inside = inside * own.astype(given.dtype)
        network = (None if a is None else a[expert_of[number]] for a in given.experts)
        y = _network((inside, *network), combine, given.library.xp, given.dtype).astype(given.wide)
        return y if given.on_input else y * own

    def one(number: Array) -> Array:
        return jax.lax.cond(number < used, of_block, lambda _: jnp.zeros((rows, out), given.wide), number)

    found = jax.lax.map(one, jnp.arange(blocks)).reshape(blocks * rows, out)
    place = place.reshape(-1, k)
    y = found[place[:, 0]]
    for r in range(1, k):
        y = y + found[place[:, r]]
    return y.reshape(*lead, out)


def _places(chosen: Array, E: int, rows: int, blocks: int) -> tuple[Array, Array, Array]:
    """The row of each choice, sorted by expert and each expert's beginning a block; the blocks' experts; how many."""
    order = jnp.argsort(chosen, stable=True)
    counts = jnp.bincount(chosen, length=E)
    ends = jnp.cumsum(-(-counts // rows))
    first = (ends - -(-counts // rows)) * rows - (jnp.cumsum(counts) - counts)
    ranked = chosen[order]
    place = jnp.zeros_like(order).at[order].set(jnp.arange(order.shape[0]) + first[ranked])
    expert_of = jnp.minimum(jnp.searchsorted(ends, jnp.arange(blocks), side="right"), E - 1)
    return place, expert_of, ends[-1]
