"""What a library's own refusal means in terms of the arguments: asked once it has refused, so that it costs nothing."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from portable_ffn._arrays.errors import refusal
from portable_ffn._arrays.typing import Array

Result = TypeVar("Result")


def explaining(
    names: tuple[str, ...], arrays: tuple[Array | None, ...], compute: Callable[..., Result], *given: Any
) -> Result:
    """compute(*given); a refusal because of where or how an argument is stored says which one and what to do."""
    try:
        return compute(*given)
    except ValueError as error:
        explained: Exception | None = _devices_of_jax(names, arrays)
        if explained is None:
            raise
        raise explained from error
    except RuntimeError as error:
        explained = _layout_of_torch(names, arrays)
        if explained is None:
            raise
        raise explained from error


def two_devices(first: str, device: Any, argument: str, other: Any) -> ValueError:
    """The error for arrays on two devices."""
    statement = f"must be on one device, got {first} on {device} and {argument} on {other}"
    return refusal(ValueError, f"{first} and {argument}", statement, way_out(first, argument))


def way_out(first: str, argument: str) -> str:
    """What to do with an array that lies elsewhere."""
    return "convert dy" if argument == "dy" else f"move the weights to it by weights.to(like={first})"


def _devices_of_jax(names: tuple[str, ...], arrays: tuple[Array | None, ...]) -> ValueError | None:
    """The error for arrays of JAX that are committed to different devices; None where there are none."""
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
            return two_devices(placed[0][0], _listed(placed[0][1]), argument, _listed(devices))
    return None


def _listed(devices: Any) -> str:
    """Devices of JAX in words."""
    return ", ".join(sorted(str(device) for device in devices))


def _layout_of_torch(names: tuple[str, ...], arrays: tuple[Array | None, ...]) -> TypeError | None:
    """The error for a tensor that PyTorch can't multiply, nested or of another layout; None where there is none."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    for argument, array in zip(names, arrays, strict=True):
        if not isinstance(array, torch.Tensor):
            continue
        if array.is_nested and array.layout is torch.strided:
            statement = "must be a tensor whose shape can be read, got a strided nested tensor"
            advice = f"make it with layout=torch.jagged, or pad it by torch.nested.to_padded_tensor({argument}, 0.0)"
            return refusal(TypeError, argument, statement, advice)
        if array.layout is not torch.strided and not array.is_nested:
            layout = str(array.layout).rpartition(".")[2].strip("_")
            statement = f"must be stored so that PyTorch can multiply it here, got a tensor of layout {layout}"
            return refusal(TypeError, argument, statement, f"pass {argument}.to_dense()")
    return None
