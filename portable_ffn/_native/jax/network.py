"""JAX's row: outside every transform, one compiled function for each activation, long batches a block at a time.

Under a transform, the same network in activations whose derivatives XLA makes short work of.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from portable_ffn._activations.gates import ClippedGate
from portable_ffn._activations.named import Named
from portable_ffn._activations.resolve import Hidden
from portable_ffn._arrays.arguments import Call, checked
from portable_ffn._arrays.dtype import LOW_PRECISION
from portable_ffn._arrays.promotion import cast
from portable_ffn._arrays.shapes import NAMES
from portable_ffn._arrays.typing import Array, Namespace
from portable_ffn._native.blocks import block_rows
from portable_ffn._native.jax.activations import ACTIVATIONS

Combine = Callable[[Array, Array | None, Namespace], Array]

# (name of an activation or ClippedGate, whether rows go in blocks) -> the compiled network. jax.jit itself tells
# shapes, dtypes, devices and the configuration (x64, matmul precision) apart.
_compiled: dict[tuple[Any, bool], Callable[..., Array]] = {}
MOST = 256
# XLA asks the system for a hidden layer's memory at each call, and touching new pages costs up to a quarter of the
# products; a block's is small enough to be had again (ci/BENCH.md).
BLOCK = {"hidden_bytes": 16 * 2**20, "most": 1024}
# An x of so many numbers is in one block and on one device for all that we care.
LITTLE = 2**16
# Types that are no tracers: the question costs more than the answer's look-up.
_concrete: set[type] = set()


def network(call: Call) -> Array | None:
    """The network; None for other gates and a user's function, as a fresh lambda would be compiled anew at every call,
    and under a transform for an activation without a row.
    """
    one, arrays, act, _, dtype = call
    # Both hash by their values. A subclass of the gate may mean something else.
    key: Any = act.name if isinstance(act, Named) else act if type(act) is ClippedGate else None
    if key is None:
        return None
    if _traced(arrays):
        return _network(arrays, _combine(key, act), one.xp, dtype) if key in ACTIVATIONS else None
    splits = _splits(arrays)
    compiled = _compiled.get((key, splits)) or _compile(key, act, splits)
    return compiled(*arrays)


def small(
    x: Array,
    W1: Array,
    b1: Array | None,
    W2: Array,
    b2: Array | None,
    V: Array | None,
    c: Array | None,
    activation: Any,
) -> Array | None:
    """The network of few arrays as they came, by a function compiled before; None for what it can't take.

    The compiled function makes every check where it is traced, and a call with shapes or dtypes that were not checked
    is traced.
    """
    compiled = _compiled.get((activation, False)) if type(activation) is str else None
    if compiled is None or type(x) not in _concrete or x.size > LITTLE:
        return None
    kind = type(x)
    for array in (W1, b1, W2, b2, V, c):
        if array is not None and type(array) is not kind:
            return None
    try:
        return compiled(x, W1, b1, W2, b2, V, c)
    except (TypeError, ValueError):
        return None  # the checks say what is wrong


def _traced(arrays: tuple[Array, ...]) -> bool:
    """Whether a transform looks at the call."""
    for array in arrays:
        if type(array) not in _concrete:
            if isinstance(array, jax.core.Tracer):
                return True
            _concrete.add(type(array))
    return False


def _splits(arrays: tuple[Array, ...]) -> bool:
    """Whether the rows go in blocks: many of them, all on one CPU and no part of a mesh."""
    x, W1, _, W2, _, V, _ = arrays
    if x.size <= LITTLE or not W2.size or not _block(x, W1, V):
        return False
    placed = [array.sharding for array in arrays if array is not None]
    devices = set[Any]().union(*(sharding.device_set for sharding in placed))
    alone = all(isinstance(sharding, jax.sharding.SingleDeviceSharding) for sharding in placed)
    return alone and len(devices) == 1 and devices.pop().platform == "cpu"


def _block(x: Array, W1: Array, V: Array | None) -> int:
    """How many rows a block takes; 0 where all are one block."""
    d_model, d_ff = W1.shape
    rows = x.size // d_model
    size = block_rows(rows, d_ff * x.dtype.itemsize * (1 if V is None else 2), **BLOCK)
    return size if size < rows else 0


def _compile(key: Any, act: Hidden, splits: bool) -> Callable[..., Array]:
    """The network of one activation as one function of arrays, None where None, with its checks."""
    combine = _combine(key, act)

    def feed_forward(*arrays: Array) -> Array:
        one, _, _, _, dtype = checked(NAMES, arrays)
        x, W1, _, W2, _, V, _ = arrays
        if not splits:
            return _network(arrays, combine, one.xp, dtype)
        flat = x.reshape(-1, x.shape[-1])
        y = jax.lax.map(
            lambda row: _network((row, *arrays[1:]), combine, one.xp, dtype), flat, batch_size=_block(x, W1, V)
        )
        return y.reshape(*x.shape[:-1], W2.shape[1])

    if len(_compiled) >= MOST:
        _compiled.clear()
    compiled = _compiled[key, splits] = jax.jit(feed_forward)
    return compiled


def _network(arrays: tuple[Array, ...], combine: Combine, xp: Namespace, dtype: Any) -> Array:
    """The network in one dtype."""
    x, W1, b1, W2, b2, V, c = cast(arrays, dtype, xp)

    def affine(x: Array, W: Array, b: Array | None) -> Array:
        y = xp.matmul(x, W)
        return y if b is None else xp.add(y, b)

    return affine(combine(affine(x, W1, b1), None if V is None else affine(x, V, c), xp), W2, b2)


def _combine(key: Any, act: Hidden) -> Combine:
    """What makes the hidden layer: XLA's activation where there is one, and else the formula."""
    value = ACTIVATIONS.get(key) if isinstance(key, str) else None
    combine: Combine = act.combine if value is None else partial(_hidden, value)
    return combine


def _hidden(value: Callable[[Array], Array], g: Array, u: Array | None, xp: Namespace) -> Array:
    """act(g), times u where the network is gated; half precision is rounded once."""
    wide = jnp.float32 if g.dtype.name in LOW_PRECISION else g.dtype
    a = value(g.astype(wide))
    return (a if u is None else a * u.astype(wide)).astype(g.dtype)
