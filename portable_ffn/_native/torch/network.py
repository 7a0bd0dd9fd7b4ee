"""PyTorch's row: F.linear and its own activations; where nobody differentiates or traces, in place and in blocks."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter

from portable_ffn._activations.gates import ClippedGate
from portable_ffn._activations.named import Named
from portable_ffn._activations.resolve import Hidden
from portable_ffn._arrays.arguments import Call
from portable_ffn._arrays.dtype import LOW_PRECISION
from portable_ffn._arrays.promotion import astype, cast
from portable_ffn._arrays.typing import Array, Namespace
from portable_ffn._native.blocks import FEWEST, block_rows, blocks
from portable_ffn._native.torch.activations import CAREFUL, IN_PLACE, RECORDED, TRACED, Step, clipped_gate_
from portable_ffn._native.torch.observers import autocast, is_compiling, watched
from portable_ffn._native.torch.small import remember


def _has_bfloat16_units() -> bool:
    """Whether this CPU multiplies bfloat16; without, PyTorch's product is many times slower than that of float32."""
    capabilities: Any = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


# Dtypes that go through float32 on a CPU.
_WIDENED = LOW_PRECISION - {"bfloat16"} if _has_bfloat16_units() else LOW_PRECISION

# A hidden layer's memory beyond it comes anew from the system at each call, and touching new pages costs up to a tenth
# of the products (ci/BENCH.md).
HIDDEN_BYTES = 16 * 2**20


def network(call: Call) -> Array | None:
    """The network of plain dense tensors; None for all others, other gates, a user's function and no positions."""
    one, arrays, act, name, dtype = call
    activation = act.name if isinstance(act, Named) else None
    if is_compiling():
        return _recorded(_cast(arrays, name, dtype, one.xp), activation, TRACED, dtype, one.xp)
    requires_grad, cast = False, name in _WIDENED
    for array in arrays:
        if array is not None:
            if (type(array) is not Tensor and type(array) is not Parameter) or array.layout is not torch.strided:
                return None
            if array.requires_grad:
                requires_grad = True
            if array.dtype is not dtype:
                cast = True
    if cast:
        arrays = _cast(arrays, name, dtype, one.xp)
    if watched():
        return _recorded(arrays, activation, TRACED, dtype, one.xp)
    under_autocast = autocast(arrays[0])
    if not (cast or under_autocast):
        remember(activation, arrays)
    if (requires_grad and torch.is_grad_enabled()) or (name in LOW_PRECISION and under_autocast):
        y = _recorded(arrays, activation, RECORDED, dtype, one.xp)
        return _recorded(arrays, activation, TRACED, dtype, one.xp) if _doubtful(activation, y) else y
    y = _in_place(arrays, act, activation, IN_PLACE, dtype, one.xp)
    return _in_place(arrays, act, activation, CAREFUL, dtype, one.xp) if _doubtful(activation, y) else y


def _doubtful(activation: str | None, y: Array | None) -> bool:
    """Whether F.gelu on a CPU may have got an infinite or huge number wrong: each shows as NaN or inf in its row."""
    if y is None or activation != "gelu" or not y.is_cpu or y.dtype is torch.float64:
        return False
    return not math.isfinite(y.detach().sum())


def _recorded(arrays: tuple[Array, ...], name: str | None, table: Any, dtype: Any, xp: Namespace) -> Array | None:
    """The network in operations that each give a new tensor, for whoever records them."""
    activation = table.get(name)
    if activation is None:
        return None
    x, W1, b1, W2, b2, V, c = arrays
    a = activation(_linear(x, W1, b1))
    if V is not None:
        a = a * _linear(x, V, c)
    return astype(_linear(a, W2, b2), dtype, xp)


def _linear(x: Array, W: Array, b: Array | None) -> Array:
    """x W + b as F.linear records it."""
    return F.linear(x, W.t(), b) if b is None or x.dim() != 2 else torch.addmm(b, x, W)


def _in_place(
    arrays: tuple[Array, ...], act: Hidden, name: str | None, table: Any, dtype: Any, xp: Namespace
) -> Array | None:
    """The network in memory of its own that is used again and again."""
    x, W1, b1, W2, b2, V, c = arrays
    shape = x.shape
    activation = table.get(name) or _other(act, xp)
    if activation is None or 0 in shape:
        return None
    flat = x if len(shape) == 2 else x.reshape(-1, shape[-1])
    if flat.shape[0] <= FEWEST or not x.is_cpu:
        y = _affine(_hidden(flat, W1, b1, V, c, activation), W2, b2)
    else:
        y = _in_blocks(flat, W1, b1, W2, b2, V, c, activation)
    if y.dtype is not dtype:
        y = y.to(dtype)
    return y if len(shape) == 2 else y.reshape(*shape[:-1], y.shape[1])


def _in_blocks(
    x: Array,
    W1: Array,
    b1: Array | None,
    W2: Array,
    b2: Array | None,
    V: Array | None,
    c: Array | None,
    activation: Step,
) -> Array:
    """A block of rows after the other; the memory beside the output is that of one block's hidden layer."""
    rows, (d_ff, width) = x.shape[0], W2.shape
    size = block_rows(rows, d_ff * x.itemsize * (1 if V is None else 2), hidden_bytes=HIDDEN_BYTES)
    y = x.new_empty(rows, width)
    g, u = x.new_empty(size, d_ff), None if V is None else x.new_empty(size, d_ff)
    for start, stop in blocks(rows, size):
        n = stop - start
        h = _hidden(x[start:stop], W1, b1, V, c, activation, g[:n], None if u is None else u[:n])
        _affine(h, W2, b2, y[start:stop])
    return y


def _hidden(
    x: Array,
    W1: Array,
    b1: Array | None,
    V: Array | None,
    c: Array | None,
    activation: Step,
    into: Array | None = None,
    linear: Array | None = None,
) -> Array:
    """The hidden layer of a matrix, the branches in memory that is given or in their own."""
    return activation(_affine(x, W1, b1, into), None if V is None else _affine(x, V, c, linear))


def _affine(x: Array, W: Array, b: Array | None, out: Array | None = None) -> Array:
    """x W + b of matrices."""
    if out is None:
        return torch.mm(x, W) if b is None else torch.addmm(b, x, W)
    return torch.mm(x, W, out=out) if b is None else torch.addmm(b, x, W, out=out)


def _cast(arrays: tuple[Array, ...], name: str, dtype: Any, xp: Namespace) -> tuple[Array, ...]:
    """The arrays in the dtype that the products are computed in."""
    computing = torch.float32 if name in _WIDENED and arrays[0].is_cpu else dtype
    return cast(arrays, computing, xp)


def _other(act: Hidden, xp: Namespace) -> Step | None:
    """What makes the hidden layer where no row of the table does; None for other gates and a user's function."""
    if isinstance(act, Named):
        return lambda g, u: act.combine(g, u, xp)
    # A subclass may mean something else.
    return (lambda g, u: clipped_gate_(g, u, act)) if type(act) is ClippedGate else None
