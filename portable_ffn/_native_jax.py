"""JAX's row: outside every transform, one compiled function for each activation and dtype.

Nobody differentiates it, so its activations may be what XLA computes fastest, with values only in mind.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from portable_ffn._dtype import LOW_PRECISION
from portable_ffn._gelu_tail import CUBIC, LAST, RATIOS, TWICE_SQRT_2_OVER_PI
from portable_ffn._namespace import astype
from portable_ffn._native import WHOLE
from portable_ffn._typing import Array
from portable_ffn._validated import validated


def gelu(h: Array) -> Array:
    """max(x, 0) - |x| Q(|x|) as in `_gelu_tail`, by Horner's scheme: XLA makes one loop of it."""
    above, below = RATIOS[h.dtype.name]
    half = 0.5 * h
    s = jnp.minimum(jnp.abs(half), LAST[h.dtype])
    ratio = jnp.polyval(jnp.array(above[::-1], h.dtype), s) / jnp.polyval(jnp.array(below[::-1], h.dtype), s)
    return (half + jnp.abs(half)) - ratio * jnp.exp(-2.0 * s * s)


def gelu_tanh(h: Array) -> Array:
    """h / (1 + exp(-2 u)), since (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u))."""
    return h / (1.0 + jnp.exp(-TWICE_SQRT_2_OVER_PI * h * (1.0 + CUBIC * h * h)))


# An activation without a row is compiled from its own formula.
VALUES: Mapping[str, Callable[[Array], Array]] = {
    "relu": lambda h: jnp.maximum(h, 0.0),
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "quick_gelu": lambda h: h / (1.0 + jnp.exp(-1.702 * h)),
    "silu": lambda h: h / (1.0 + jnp.exp(-h)),
}

# Name of an activation or ClippedGate -> the compiled network. jax.jit itself tells shapes, dtypes, devices and the
# configuration (x64, matmul precision) apart.
_compiled: dict[Any, Callable[..., Array]] = {}
MOST = 256
# Types that are no tracers: the question costs more than the answer's look-up.
_concrete: set[type] = set()


def network(arrays: tuple[Array, ...], act: Any, name: str, dtype: Any) -> Array | None:
    """The network compiled; None under a transform, which compiles for itself, and for a user's own function or gate.

    A fresh lambda would be compiled anew at every call.
    """
    for array in arrays:
        if type(array) not in _concrete:
            if isinstance(array, jax.core.Tracer):
                return None
            _concrete.add(type(array))
    key: Any = getattr(act, "name", None)
    if key is None:
        key = getattr(act, "gate", None)
        if type(key).__module__ != "portable_ffn._clipped_gate":
            return None
    compiled = _compiled.get(key)
    if compiled is None:
        compiled = _compile(key, act)
    WHOLE[type(arrays[0])] = whole
    return compiled(*arrays)


def whole(
    x: Array,
    W1: Array,
    b1: Array | None,
    W2: Array,
    b2: Array | None,
    V: Array | None,
    c: Array | None,
    activation: Any,
) -> Array | None:
    """The network of arrays as they came, by a function compiled before; None for what it can't take.

    The compiled function makes every check where it is traced, and a call with shapes or dtypes that were not checked
    is traced.
    """
    compiled = _compiled.get(activation) if type(activation) is str else None
    if compiled is None:
        return None
    kind = type(x)
    for array in (W1, b1, W2, b2, V, c):
        if array is not None and type(array) is not kind:
            return None
    try:
        return compiled(x, W1, b1, W2, b2, V, c)
    except (TypeError, ValueError):
        return None  # the long way says what is wrong


def _hidden(value: Callable[[Array], Array], g: Array, u: Array | None) -> Array:
    """act(g), times u where the network is gated; half precision is rounded once."""
    wide = jnp.float32 if g.dtype.name in LOW_PRECISION else g.dtype
    a = value(g.astype(wide))
    return (a if u is None else a * u.astype(wide)).astype(g.dtype)


def _compile(key: Any, act: Any) -> Callable[..., Array]:
    """The network of one activation as one function of arrays, None where None, with its checks."""

    def feed_forward(*arrays: Array) -> Array:
        one, _, dtype = validated(arrays)
        x, W1, b1, W2, b2, V, c = (None if array is None else astype(array, dtype, one.xp) for array in arrays)

        def affine(x: Array, W: Array, b: Array | None) -> Array:
            y = one.xp.matmul(x, W)
            return y if b is None else y + b

        g, u = affine(x, W1, b1), None if V is None else affine(x, V, c)
        return affine(act.combine(g, u, one.xp) if value is None else _hidden(value, g, u), W2, b2)

    value = VALUES.get(key) if isinstance(key, str) else None

    if len(_compiled) >= MOST:
        _compiled.clear()
    compiled = _compiled[key] = jax.jit(feed_forward)
    return compiled
