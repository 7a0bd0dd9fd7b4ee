"""A small network of plain PyTorch tensors as one call, every check of the contract included.

On few numbers the looking costs more than the products, so each thing is looked at once, cheapest first. Whatever is
out of the ordinary is left to the long way, which knows what to say or do.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling
from torch.nn import Parameter

from portable_ffn._arrays.shapes import check_shapes
from portable_ffn._arrays.typing import Array
from portable_ffn._native.torch.activations import IN_PLACE, RECORDED, Act, Step
from portable_ffn._native.torch.observers import watched

_autocast = getattr(torch._C, "_is_any_autocast_enabled", torch.is_autocast_enabled)
# So many positions are few.
FEW = 16
_PLAIN = frozenset({Tensor, Parameter})
_DTYPES = frozenset({torch.float32, torch.float64})
# F.gelu needs a look at what it gave.
_STEPS: Mapping[str, tuple[Act, Step]] = {
    name: (act, IN_PLACE[name]) for name, act in RECORDED.items() if name != "gelu"
}


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
    """The network of a few positions; None for all that the long way is for, faults of dtype or library among it.

    Raises ValueError where shapes don't fit.
    """
    if is_compiling() or watched() or _autocast() or type(activation) is not str or activation not in _STEPS:
        return None
    dtype = x.dtype
    if dtype not in _DTYPES or not x.is_cpu or W1 is None or W2 is None:
        return None
    for array in (W1, b1, W2, b2, V, c):
        if array is not None and not (type(array) in _PLAIN and array.dtype is dtype and array.is_cpu):
            return None
    check_shapes(x, W1, b1, W2, b2, V, c)
    shape = x.shape
    if len(shape) != 2 or not 0 < shape[0] <= FEW:
        return None
    recorded, in_place = _STEPS[activation]
    try:
        g = torch.mm(x, W1) if b1 is None else torch.addmm(b1, x, W1)
        # What autograd keeps must not be written to.
        g = recorded(g) if g.requires_grad else in_place(g, None)
        if V is not None:
            g = g * (torch.mm(x, V) if c is None else torch.addmm(c, x, V))
        return torch.mm(g, W2) if b2 is None else torch.addmm(b2, g, W2)
    except RuntimeError:
        return None  # sparse weights, of which addmm takes some and not others
