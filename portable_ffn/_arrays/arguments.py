"""What may be combined: arrays of one library, on devices that the library brings together."""

import sys
from typing import Any

from portable_ffn._arrays.library import library_of, not_an_array
from portable_ffn._arrays.promotion import Library, library
from portable_ffn._arrays.typing import Array

# Libraries whose arrays may lie on several devices that the library does not combine. JAX is not among them:
# it knows best which shardings go together, and its refusal is translated (`explain_devices`).
_MANY_DEVICES = frozenset({"torch", "cupy", "array_api_strict"})


def one_library(names: tuple[str, ...], arrays: tuple[Array, ...]) -> Library:
    """The library that x and all weights belong to.

    Raises TypeError for what is no array and for arrays of two libraries, ValueError for arrays on two devices
    of a library that does not combine them.
    """
    first = arrays[0]
    one = library(first, names[0])
    kind = type(first)
    for array in arrays:
        if array is not None and type(array) is not kind and library_of(array) != one.name:
            raise _two_libraries(names[0], one.name, _argument(array, names, arrays), array)
    if one.name in _MANY_DEVICES:
        device, on_cpu = first.device, getattr(first, "is_cpu", False)
        for array in arrays:
            # PyTorch's flag costs a third of its device.
            if array is None or array is first or (on_cpu and array.is_cpu):
                continue
            if array.device != device:
                raise _two_devices(names[0], device, _argument(array, names, arrays), array.device)
    return one


def _argument(array: Array, names: tuple[str, ...], arrays: tuple[Array, ...]) -> str:
    """The name under which an array was given."""
    return next(name for name, given in zip(names, arrays, strict=True) if given is array)


def _two_libraries(first: str, name: str, argument: str, array: Array) -> TypeError:
    """The error for arrays of two libraries: it names the argument, both libraries and the way out."""
    other = library_of(array)
    if other is None:
        return not_an_array(argument, array)
    return TypeError(
        f"{first} and {argument} must belong to one library, got {first} of {name} and {argument} of {other}; "
        f"move the weights to it by weights.to(like={first})",
    )


def _two_devices(first: str, device: Any, argument: str, other: Any) -> ValueError:
    """The error for arrays on two devices."""
    return ValueError(
        f"{first} and {argument} must be on one device, got {first} on {device} and {argument} on {other}; "
        f"move the weights to it by weights.to(like={first})",
    )


def explain_devices(names: tuple[str, ...], arrays: tuple[Array, ...]) -> ValueError | None:
    """Why JAX refused to combine these arrays, where devices are the reason; None where they are not."""
    jax = sys.modules.get("jax")
    if jax is None:
        return None
    placed = [
        (argument, array.devices())
        for argument, array in zip(names, arrays, strict=True)
        if isinstance(array, jax.Array) and not isinstance(array, jax.core.Tracer) and array.committed
    ]
    for argument, devices in placed[1:]:
        if devices != placed[0][1]:
            return _two_devices(placed[0][0], _listed(placed[0][1]), argument, _listed(devices))
    return None


def _listed(devices: Any) -> str:
    """Devices of JAX in words."""
    return ", ".join(sorted(str(device) for device in devices))
