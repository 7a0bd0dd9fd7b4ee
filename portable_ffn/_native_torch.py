"""PyTorch's row: F.linear and its own activations; where nobody differentiates or traces, in place and in blocks."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.autograd import forward_ad

from portable_ffn._dtype import LOW_PRECISION
from portable_ffn._namespace import namespace
from portable_ffn._native_torch_activations import IN_PLACE, RECORDED, TRACED, Act, clipped_gate_
from portable_ffn._rows import block_rows, blocks
from portable_ffn._typing import Array

# PyTorch gains nothing from blocks smaller than this: it cuts the work between its threads anew at every operation.
MOST_ROWS = 2048


def _has_bfloat16_units() -> bool:
    """Whether this CPU multiplies bfloat16; without, PyTorch's product is many times slower than that of float32."""
    capabilities: Any = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


# Dtypes that go through float32 on a CPU.
_WIDENED = LOW_PRECISION - {"bfloat16"} if _has_bfloat16_units() else LOW_PRECISION


def network(arrays: tuple[Array, ...], act: Any, name: str, dtype: Any) -> Array | None:
    """The network of plain tensors; None for subclasses, for a user's own function or gate, and for no positions."""
    if torch.compiler.is_compiling():
        return _recorded(arrays, act, TRACED, name, dtype)
    for array in arrays:
        if array is not None and type(array) is not torch.Tensor and type(array) is not torch.nn.Parameter:
            return None
    if _traced():
        return _recorded(arrays, act, TRACED, name, dtype)
    if torch.is_grad_enabled():
        for array in arrays:
            if array is not None and array.requires_grad:
                return _recorded(arrays, act, RECORDED, name, dtype)
    if _autocast(arrays[0]):
        return _recorded(arrays, act, RECORDED, name, dtype)
    return _in_place(arrays, act, name, dtype)


def _autocast(x: Array) -> bool:
    """Whether autocast has a say on the device of x."""
    if x.is_cpu:
        return torch.is_autocast_enabled("cpu")
    return torch.amp.is_autocast_available(x.device.type) and torch.is_autocast_enabled(x.device.type)


def _traced() -> bool:
    """Whether something beside autograd looks at every operation: functorch, forward mode, tracing, a mode."""
    return (
        torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._len_torch_function_stack() > 0
        or forward_ad._current_level >= 0
        or torch._C._get_tracing_state() is not None
    )


def _recorded(arrays: tuple[Array, ...], act: Any, table: Any, name: str, dtype: Any) -> Array | None:
    """The network in operations that each give a new tensor, for whoever records them."""
    activation = table.get(getattr(act, "name", None))
    if activation is None:
        return None
    x, W1, b1, W2, b2, V, c = _cast(arrays, name, dtype)
    a = activation(F.linear(x, W1.t(), b1))
    if V is not None:
        a = a * F.linear(x, V.t(), c)
    y = F.linear(a, W2.t(), b2)
    return y if y.dtype is dtype else y.to(dtype)


def _in_place(arrays: tuple[Array, ...], act: Any, name: str, dtype: Any) -> Array | None:
    """The network in memory of its own that is used again and again."""
    combine = _combine(act, arrays[0])
    shape = arrays[0].shape
    if combine is None or not arrays[0].numel():
        return None
    x, W1, b1, W2, b2, V, c = _cast(arrays, name, dtype)
    if len(shape) != 2:
        x = x.reshape(-1, shape[-1])
    rows, (d_ff, width) = len(x), W2.shape
    size = block_rows(rows, d_ff * x.itemsize * (1 if V is None else 2), MOST_ROWS) if x.is_cpu else rows
    if size == rows:
        y = _affine(combine(_affine(x, W1, b1), None if V is None else _affine(x, V, c)), W2, b2)
    else:
        y = x.new_empty(rows, width)
        g, u = x.new_empty(size, d_ff), None if V is None else x.new_empty(size, d_ff)
        for start, stop in blocks(rows, size):
            part, n = x[start:stop], stop - start
            h = combine(_affine(part, W1, b1, g[:n]), None if u is None else _affine(part, V, c, u[:n]))
            _affine(h, W2, b2, y[start:stop])
    if y.dtype is not dtype:
        y = y.to(dtype)
    return y if len(shape) == 2 else y.reshape(*shape[:-1], width)


def _affine(x: Array, W: Array, b: Array | None, out: Array | None = None) -> Array:
    """X W + b of matrices."""
    return torch.mm(x, W, out=out) if b is None else torch.addmm(b, x, W, out=out)


def _cast(arrays: tuple[Array, ...], name: str, dtype: Any) -> tuple[Array, ...]:
    """The arrays in the dtype that the products are computed in."""
    computing = torch.float32 if name in _WIDENED and arrays[0].is_cpu else dtype
    for array in arrays:
        if array is not None and array.dtype is not computing:
            return tuple(None if array is None else array.to(computing) for array in arrays)
    return arrays


def _combine(act: Any, x: Array) -> Callable[[Array, Array | None], Array] | None:
    """What makes the hidden layer of both branches, into the first; None for a user's own function or gate."""
    name = getattr(act, "name", None)
    if name is None:
        gate = getattr(act, "gate", None)
        # The class lives on a floor above, and a subclass may mean something else.
        ours = type(gate).__module__ == "portable_ffn._clipped_gate"
        return (lambda g, u: clipped_gate_(g, u, gate)) if ours else None
    activation: Act | None = IN_PLACE.get(name)
    if activation is None:
        return lambda g, u: act.combine(g, u, namespace(x))
    return lambda g, u: activation(g) if u is None else activation(g).mul_(u)
