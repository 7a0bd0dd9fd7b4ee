"""Whether PyTorch shows each operation to somebody: a compiler, a transform, a mode, a trace, or autocast."""

from typing import Any

import torch
from torch.autograd import forward_ad
from torch.compiler import is_compiling

__all__ = ["any_autocast", "autocast", "is_compiling", "watched"]

_transforms = torch._C._functorch.peek_interpreter_stack
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_trace = torch._C._get_tracing_state
# Whether autocast has a say on any device.
any_autocast = getattr(torch._C, "_is_any_autocast_enabled", torch.is_autocast_enabled)


def watched() -> bool:
    """Whether functorch, a mode, forward mode or torch.jit.trace looks at every operation."""
    return (
        _transforms() is not None
        or _dispatch_modes() > 0
        or _function_modes() > 0
        or forward_ad._current_level >= 0
        or _trace() is not None
    )


def autocast(x: Any) -> bool:
    """Whether autocast has a say on the device of x."""
    if x.is_cpu:
        return torch.is_autocast_enabled("cpu")
    return torch.amp.is_autocast_available(x.device.type) and torch.is_autocast_enabled(x.device.type)
