"""Calls on what stands for an array that comes later, such as a Proxy of torch.fx: one node of its graph each."""

from collections.abc import Callable
from typing import Any

from portable_ffn._arrays.kind import refused
from portable_ffn._arrays.library import library_of
from portable_ffn._arrays.typing import Array


def stands_for_an_array(x: Any) -> bool:
    """Whether x is no array itself, but takes the place of PyTorch's by its protocol `__torch_function__`."""
    return library_of(x) is None and hasattr(type(x), "__torch_function__") and refused(type(x)) is None


def deferred(function: Callable[..., Array], *arguments: Any, **named: Any) -> Any:
    """What the protocol makes of function(*arguments, **named)."""
    x: Any = arguments[0]
    return type(x).__torch_function__(function, (type(x),), arguments, named)
