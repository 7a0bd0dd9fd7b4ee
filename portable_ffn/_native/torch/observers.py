"""Whether PyTorch shows each operation to somebody: a transform, a mode, forward mode, a trace or autocast."""

import torch
from torch.autograd import forward_ad

_transforms = torch._C._functorch.peek_interpreter_stack
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_trace = torch._C._get_tracing_state


def watched() -> bool:
    """Whether functorch, a mode, forward mode or torch.jit.trace looks at every operation."""
    return (
        _transforms() is not None
        or _dispatch_modes() > 0
        or _function_modes() > 0
        or forward_ad._current_level >= 0
        or _trace() is not None
    )
