"""NumPy's row: products into memory that is there already, and what comes between them on tiles in the cache."""

from typing import Any

import numpy as np

from portable_ffn._activations.gates import ClippedGate
from portable_ffn._activations.named import Named
from portable_ffn._activations.resolve import Hidden
from portable_ffn._arrays.arguments import Call
from portable_ffn._arrays.typing import Array
from portable_ffn._native.blocks import block_rows, blocks
from portable_ffn._native.numpy.small import is_small, remember
from portable_ffn._native.numpy.small import network as small
from portable_ffn._native.numpy.tiles import STEPS, Combine, by_formula, clipped_gate
from portable_ffn._native.numpy.workspace import Work, silently, widen

# Larger tiles leave the cache that a core has for itself, smaller ones are lost in the calls (ci/BENCH.md).
TILE_BYTES = 96 * 2**10
_ndarray = np.ndarray
_FLOAT32, _FLOAT64 = np.dtype("float32"), np.dtype("float64")


def network(call: Call) -> Array | None:
    """The network in float32 or float64, half precision through float32; None for what functions of NumPy are to do."""
    return silently(_network, call)


def _network(call: Call) -> Array | None:
    """The network, whatever NumPy says of overflows."""
    _, arrays, act, name, dtype = call
    combine = _combine(act)
    if combine is None:
        return None
    computing = _FLOAT64 if name == "float64" else _FLOAT32
    cast = mapped = False
    for array in arrays:
        if array is not None:
            if type(array) is np.memmap:
                mapped = True
            elif type(array) is not _ndarray:
                return None
            if array.dtype is not computing:
                cast = True
    if mapped:
        # A product of two of them would be one of them, in memory.
        arrays = tuple(None if array is None else array.view(_ndarray) for array in arrays)
    x, W1, b1, W2, b2, V, c = arrays
    if not (x.size and W1.size and W2.size):
        return None
    if cast:
        W1, b1, W2, b2, V, c = (None if W is None else widen(W, computing) for W in arrays[1:])
    if is_small(x, W1, W2):
        if not cast and not mapped and isinstance(act, Named) and act.name in STEPS:
            remember(act.name, arrays)
        y = small(widen(x, computing) if cast else x, W1, b1, W2, b2, V, c, combine, computing)
    else:
        flat = x if x.ndim == 2 else x.reshape(-1, x.shape[-1])
        y = _in_blocks(flat, W1, b1, W2, b2, V, c, combine, computing, dtype).reshape(x.shape[:-1] + W2.shape[1:])
    return y if y.dtype is dtype else y.astype(dtype)


def _in_blocks(
    x: Array,
    W1: Array,
    b1: Array | None,
    W2: Array,
    b2: Array | None,
    V: Array | None,
    c: Array | None,
    combine: Combine,
    computing: Any,
    dtype: Any,
) -> Array:
    """A block of rows after the other; the memory beside the output is that of one block's hidden layer."""
    W1, W2, V = _for_blas(W1), _for_blas(W2), None if V is None else _for_blas(V)
    rows, d_ff = len(x), len(W2)
    size = block_rows(rows, d_ff * computing.itemsize * (1 if V is None else 2))
    work = Work(computing)
    y = np.empty((rows, W2.shape[1]), dtype)
    hidden = np.empty((size, d_ff), computing)
    linear: Array = None if V is None else np.empty((size, d_ff), computing)
    step = max(1, TILE_BYTES // (d_ff * computing.itemsize))
    biases = [None if b is None else np.broadcast_to(b, (min(step, size), d_ff)).copy() for b in (b1, c)]
    for start, stop in blocks(rows, size):
        part, out = x[start:stop], y[start:stop]
        if part.dtype is not computing:
            part = widen(part, computing)
        if not part.flags.forc:
            part = np.ascontiguousarray(part)
        g = part.dot(W1, out=hidden[: stop - start])
        u = None if V is None else part.dot(V, out=linear[: stop - start])
        _activate(g, u, biases, step, combine, work)
        if out.dtype is computing:
            g.dot(W2, out=out)
            if b2 is not None:
                np.add(out, b2, out=out)
        else:
            wide = g.dot(W2)
            out[...] = wide if b2 is None else np.add(wide, b2, out=wide)
    return y


def _activate(g: Array, u: Array | None, biases: list[Array | None], step: int, combine: Combine, work: Work) -> None:
    """Biases, activation and gate on a block, `step` rows at a time, into g."""
    b1, c = biases
    for start in range(0, len(g), step):
        tile = g[start : start + step]
        if b1 is not None:
            np.add(tile, b1[: len(tile)], out=tile)
        gate = None
        if u is not None:
            gate = u[start : start + step]
            if c is not None:
                np.add(gate, c[: len(gate)], out=gate)
            gate = gate.reshape(-1)
        combine(tile.reshape(-1), gate, work)


def _combine(act: Hidden) -> Combine | None:
    """What makes the hidden layer of both branches in place on tiles; None for other gates and a user's function."""
    if isinstance(act, Named):
        return STEPS.get(act.name) or by_formula(act)
    # A subclass may mean something else.
    return clipped_gate(act) if type(act) is ClippedGate else None


def _for_blas(W: Array) -> Array:
    """W, copied only where BLAS can't read its strides: a product would copy it for every block."""
    rows, columns = W.strides
    item = W.itemsize
    if (columns == item and rows >= item * W.shape[1]) or (rows == item and columns >= item * W.shape[0]):
        return W
    return np.ascontiguousarray(W)
