"""A small network of plain PyTorch tensors; a call whose like was checked is not checked again.

On few numbers the checks cost as much as the products. What the contract asks depends on types, dtypes, shapes and
devices, and on autocast and whoever else looks on: those are asked at every call.
"""

from collections.abc import Mapping
from typing import Any

import torch

from portable_ffn._arrays.typing import Array
from portable_ffn._native.torch.activations import IN_PLACE, RECORDED, Act, Step
from portable_ffn._native.torch.observers import any_autocast, is_compiling, watched

# So many positions are few.
FEW = 16
_DTYPES = frozenset({torch.float32, torch.float64})
# F.gelu needs a look at what it gave.
STEPS: Mapping[str, tuple[Act, Step]] = {
    name: (act, IN_PLACE[name]) for name, act in RECORDED.items() if name != "gelu"
}
# (activation, then the type, dtype, shape and device of each array, None where None) of small calls that were checked.
_checked: dict[Any, tuple[Act, Step]] = {}
MOST = 256


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
    """The network of a few positions; None unless a call like it was checked before."""
    if is_compiling() or type(activation) is not str or watched() or any_autocast():
        return None
    try:
        steps = _checked.get(_key(activation, x, W1, b1, W2, b2, V, c))
    except (AttributeError, RuntimeError, TypeError):
        return None  # no array, or one whose shape is none or can't be a key: the checks say so
    if steps is None:
        return None
    recorded, in_place = steps
    try:
        g = torch.mm(x, W1) if b1 is None else torch.addmm(b1, x, W1)
        # What autograd keeps must not be written to.
        g = recorded(g) if g.requires_grad else in_place(g, None)
        if V is not None:
            g = g * (torch.mm(x, V) if c is None else torch.addmm(c, x, V))
        return torch.mm(g, W2) if b2 is None else torch.addmm(b2, g, W2)
    except RuntimeError:
        return None  # sparse weights, of which addmm takes some and not others


def remember(name: str | None, arrays: tuple[Array, ...]) -> None:
    """A call in one dtype that was checked, where it is a small one by an activation of STEPS, on the CPU."""
    x = arrays[0]
    if (
        name is None
        or name not in STEPS
        or x.dtype not in _DTYPES
        or not x.is_cpu
        or x.dim() != 2
        or not 0 < x.shape[0] <= FEW
    ):
        return
    if len(_checked) >= MOST:
        _checked.clear()
    _checked[_key(name, *arrays)] = STEPS[name]


def _key(name: str, x: Array, W1: Array, b1: Array, W2: Array, b2: Array, V: Array, c: Array) -> Any:
    """All that the checks of a call depend on, beside who looks on."""
    return (
        name, type(x), x.dtype, x.shape, x.is_cpu, type(W1), W1.dtype, W1.shape, W1.is_cpu,
        b1 if b1 is None else (type(b1), b1.dtype, b1.shape, b1.is_cpu),
        type(W2), W2.dtype, W2.shape, W2.is_cpu,
        b2 if b2 is None else (type(b2), b2.dtype, b2.shape, b2.is_cpu),
        V if V is None else (type(V), V.dtype, V.shape, V.is_cpu),
        c if c is None else (type(c), c.dtype, c.shape, c.is_cpu),
    )  # fmt: skip
