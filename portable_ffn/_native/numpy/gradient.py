"""The gradient on NumPy, in memory that doesn't grow with the number of tokens beside its arguments and results.

A batch of one block keeps its hidden layer and the slopes: six products in all, nine gated. A larger one goes in
blocks of rows whose hidden layer is computed anew: seven products, eleven gated. What comes between the products runs
over tiles that stay in a core's cache.
"""

import math
from typing import Any

import numpy as np

from portable_ffn._activations.gates import ClippedGate
from portable_ffn._activations.named import Named
from portable_ffn._activations.resolve import Hidden
from portable_ffn._arrays.arguments import Call
from portable_ffn._arrays.dtype import is_real_floating
from portable_ffn._arrays.typing import Array, Namespace
from portable_ffn._native.blocks import block_rows, blocks
from portable_ffn._native.numpy.slopes import KERNELS, LARGEST, SCRATCH, relu
from portable_ffn._native.numpy.workspace import widen

# What may be held of the hidden layer and its gradients; a batch that fits keeps them from y to its pullback.
HELD = 64 << 20
# About seven tiles are in use at a time, which a core's second cache holds.
TILE = 1 << 16
# What is added to a weight's gradient at a time.
PRODUCT = 8 << 20


def forward(call: Call) -> tuple[Array, Any] | None:
    """y and what the gradient can use again; None for a batch, or an activation, that keeps nothing."""
    one, arrays, act, name, dtype = call
    x, V = arrays[0], arrays[5]
    computing = np.dtype(one.dtype(one.computing(name)))
    tokens, width = math.prod(x.shape[:-1]), len(arrays[3]) * (2 if V is None else 3)
    if not _by_tiles(act) or not 0 < tokens * width * computing.itemsize <= HELD:
        return None
    weights = _cast(arrays[1:], computing)
    kept = [np.empty((tokens, len(weights[2])), computing) for _ in range(2 if V is None else 3)]
    x = widen(_rows(x), computing)
    _hidden(x, weights, act, kept, None, one.xp)
    y = kept[0] @ weights[2]
    if weights[3] is not None:
        y += weights[3]
    return y.astype(dtype, copy=False).reshape(*arrays[0].shape[:-1], y.shape[1]), kept


def gradients(call: Call, dy: Array, kept: Any = None) -> tuple[Array | None, ...] | None:
    """The gradients of all seven arguments; None for an activation of the user's, which may look at whole arrays."""
    one, arrays, act, name, _ = call
    if not _by_tiles(act):
        return None
    x, computing = arrays[0], np.dtype(one.dtype(one.computing(name)))
    weights = W1, _, W2, _, V, _ = _cast(arrays[1:], computing)
    dx = np.empty(x.shape, x.dtype if is_real_floating(x.dtype) else computing)
    dW1, db1, dW2, db2, dV, dc = sums = tuple(None if a is None else np.zeros(a.shape, computing) for a in weights)
    x, dx_rows, dy = _rows(x), _rows(dx), _rows(dy)
    tokens, d_ff = len(x), len(W2)
    held = 2 if V is None else 3
    rows = tokens if kept is not None else max(1, block_rows(tokens, d_ff * held * computing.itemsize, HELD))
    if kept is None:
        buffers = [np.empty((rows, d_ff), computing) for _ in range(held)]
    for start, stop in blocks(tokens, rows):
        x_block, dy_block = (widen(a[start:stop], computing) for a in (x, dy))
        if kept is None:
            m, dg, *rest = (buffer[: stop - start] for buffer in buffers)
            du = rest[0] if rest else None
            _hidden(x_block, weights, act, [m, dg, *rest], dy_block, one.xp)
        else:
            m, by_g, *rest = kept
            d = dy_block @ W2.T
            du = d * rest[0] if rest else None
            dg = np.multiply(d, by_g, out=d)
        first = start == 0
        _add_product(dW2, m.T, dy_block, first)
        _add_product(dW1, x_block.T, dg, first)
        _add_rows(db1, dg)
        _add_rows(db2, dy_block)
        # Straight into the result where that has the dtype of the products.
        out = dx_rows[start:stop]
        dx_block = np.matmul(dg, W1.T, out=out if out.dtype == computing else None)
        if du is not None:
            _add_product(dV, x_block.T, du, first)
            _add_rows(dc, du)
            dx_block += du @ V.T
        if dx_block is not out:
            out[...] = dx_block
    return (dx, *sums)


def _by_tiles(act: Hidden) -> bool:
    """Whether an activation may be given any piece of the hidden layer: ours may."""
    return isinstance(act, (Named, ClippedGate))


def _cast(arrays: tuple[Array | None, ...], computing: Any) -> tuple[Any, ...]:
    """The arrays in the dtype of the products, None where None."""
    return tuple(None if a is None else widen(a, computing) for a in arrays)


def _rows(a: Array) -> Any:
    """All leading axes as one; -1 would be ambiguous beside an axis of length 0."""
    return a.reshape(math.prod(a.shape[:-1]), a.shape[-1])


def _hidden(x: Array, weights: tuple[Any, ...], act: Hidden, held: list[Any], dy: Array | None, xp: Namespace) -> None:
    """Into `held`: the hidden layer, then the gradients of its branches, or without dy its slopes by them."""
    W1, b1, W2, _, V, c = weights
    g, d, u = held[0], held[-1], None if V is None else held[1]
    np.matmul(x, W1, out=g)
    if u is not None:
        np.matmul(x, V, out=u)
    if dy is not None:
        np.matmul(dy, W2.T, out=d)
    kernel = KERNELS.get(act.name) if isinstance(act, Named) else None
    step = max(1, TILE // max(1, g.itemsize * g.shape[1]))
    scratch = np.empty((SCRATCH, step * g.shape[1]), g.dtype)
    for start in range(0, len(g), step):
        tile = slice(start, start + step)
        h, e, v = g[tile], d[tile], None if u is None else u[tile]
        if b1 is not None:
            h += b1
        if v is not None and c is not None:
            v += c
        if dy is None:
            e[...] = 1
        if kernel is not None and (kernel is relu or (h.min(initial=0) > -LARGEST and h.max(initial=0) < LARGEST)):
            s, *spare = (part[: h.size].reshape(h.shape) for part in scratch)
            kernel(h, s, *spare)
            _chain(h, s, e, v)
        else:
            m, dg, du = act.gradients(h, v, e, xp)
            h[...] = m
            if v is None:
                e[...] = dg
            else:
                v[...], e[...] = dg, du


def _chain(a: Array, s: Array, d: Array, u: Array | None) -> None:
    """From act(g), its slope, the gradient of the hidden layer and u: m, dg and, gated, du, as `held` has them."""
    if u is None:
        d *= s
        return
    s *= d
    d *= a
    a *= u
    u *= s


def _add_product(total: Array, a: Array, b: Array, first: bool) -> None:
    """Add a b to the total, by columns: NumPy has no product that adds, and that of some columns is small."""
    if first:
        np.matmul(a, b, out=total)
        return
    width = max(1, PRODUCT // max(1, total.itemsize * len(total)))
    for start in range(0, b.shape[1], width):
        columns = slice(start, start + width)
        total[:, columns] += a @ b[:, columns]


def _add_rows(total: Array | None, d: Array) -> None:
    """Add the sum of all rows to the total; BLAS is the fastest way through them."""
    if total is not None:
        total += np.ones(len(d), d.dtype) @ d
