"""PyTorch as a namespace of the standard, whose operations bake no device in and make no tensor beside those given.

`where` with a number would make a tensor of it, which a FakeTensor refuses outside its mode; `to` would write the
device into an exported program. Everything else is array_api_compat's.
"""

from typing import Any

import torch
from array_api_compat.torch import *  # noqa: F403
from array_api_compat.torch import __array_namespace_info__ as __array_namespace_info__  # type: ignore[attr-defined]
from torch.compiler import is_compiling

# It came with the star, says yes to any attribute and then raises, which whoever looks through a module runs into.
globals().pop("classes", None)

# Of tensors of one dtype: array_api_compat casts both first.
add, multiply, matmul = torch.add, torch.multiply, torch.matmul


def tensordot(a: Any, b: Any, *, axes: Any) -> Any:
    """The sum of products over some axes."""
    return torch.tensordot(a, b, dims=axes)


def astype(x: Any, dtype: Any, *, copy: bool = True) -> Any:
    """x in another dtype."""
    if x.dtype == dtype:
        return x.clone() if copy else x
    return torch.ops.aten._to_copy(x, dtype=dtype) if is_compiling() else x.to(dtype)


def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, y elsewhere; one of them may be a number."""
    if not isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
        return y.masked_fill(condition, x)
    if not isinstance(y, torch.Tensor) and isinstance(x, torch.Tensor):
        return x.masked_fill(~condition, y)
    return torch.where(condition, x, y)


def constants(numbers: tuple[float, ...], like: Any) -> Any:
    """Numbers as a tensor of the dtype, the device and the kind of another."""
    if type(like) in (torch.Tensor, torch.nn.Parameter):
        return torch.tensor(numbers, dtype=like.dtype, device=like.device)
    if hasattr(like, "fake_mode"):
        with like.fake_mode:
            return torch.tensor(numbers, dtype=like.dtype, device=like.device)
    return torch.stack([like.new_full((), number) for number in numbers])
