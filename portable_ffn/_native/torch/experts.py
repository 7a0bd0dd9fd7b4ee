"""PyTorch's row of the mixture: tokens gathered by expert, each expert's network on its own."""

from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling
from torch.nn import Parameter

from portable_ffn._arrays.arguments import Call
from portable_ffn._arrays.typing import Array
from portable_ffn._native.torch.network import network
from portable_ffn._native.torch.observers import watched


def experts(call: Any, block: Any) -> Array | None:
    """The mixture of plain dense tensors with values; None where somebody traces, whom no count of tokens may stop."""
    if is_compiling() or watched():
        return None
    for array in call.arrays():
        if array is not None and (
            type(array) not in (Tensor, Parameter) or array.layout is not torch.strided or array.is_meta
        ):
            return None
    return block(call, mix)


def mix(given: Any) -> Array:
    """The experts' sum, each on its own tokens."""
    k, lead = given.indices.shape[-1], given.x.shape[:-1]
    x = (
        given.x.reshape(-1, given.x.shape[-1])
        if given.x.numel()
        else given.x.new_zeros(lead.numel(), given.x.shape[-1])
    )
    x = x.to(given.dtype)
    chosen = given.indices.reshape(-1)
    order = torch.argsort(chosen, stable=True)
    counts = torch.bincount(chosen, minlength=given.experts.W1.shape[0]).tolist()
    weights = given.weights.reshape(-1, 1).index_select(0, order)
    tokens = torch.div(order, k, rounding_mode="floor")
    # Not indexed one by one: the gradient of each index would be as large as all experts.
    networks = list(zip(*(_each(array, len(counts)) for array in given.experts), strict=True))
    recorded = torch.is_grad_enabled() and any(
        array is not None and array.requires_grad for array in (x, weights, *given.experts)
    )
    outputs = []
    y = torch.zeros(x.shape[0], given.experts.W2.shape[2], dtype=given.wide, device=x.device)
    start = 0
    for e, count in enumerate(counts):
        if count:
            rows, weight = tokens[start : start + count], weights[start : start + count]
            inside = x.index_select(0, rows)
            if given.on_input:
                inside = weight.to(given.dtype) * inside
            out = _network(inside, networks[e], given).to(given.wide)
            if recorded:
                outputs.append(out if given.on_input else out * weight)
            else:
                y.index_add_(0, rows, out if given.on_input else out.mul_(weight))
            start += count
    if outputs:
        y = y.index_add(0, tokens, torch.cat(outputs))
    return y.reshape(*lead, y.shape[1])


def _each(array: Array | None, count: int) -> Any:
    """The arrays of all experts, None where None."""
    return (None,) * count if array is None else array.unbind(0)


def _network(x: Array, weights: tuple[Array | None, ...], given: Any) -> Array:
    """One expert on some tokens, by the dense network's row or, for a user's own activation, by its formula."""
    name = str(given.dtype).rpartition(".")[2]
    y = network(Call(given.library, (x, *weights), given.act, name, given.dtype))
    if y is not None:
        return y
    W1, b1, W2, b2, V, c = (None if W is None else W.to(given.dtype) for W in weights)

    def affine(x: Array, W: Array, b: Array | None) -> Array:
        return x @ W if b is None else x @ W + b

    hidden = given.act.combine(affine(x, W1, b1), None if V is None else affine(x, V, c), given.library.xp)
    return affine(hidden, W2, b2)
