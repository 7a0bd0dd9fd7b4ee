"""Another dtype or device within one library, by its own cast. All have the form cast(array, name, device)."""

from typing import Any

from portable_ffn._arrays.dtype import dtype_name, not_held, numpy_dtype, own_dtype
from portable_ffn._arrays.errors import refusal


def no_device(library: str, device: Any) -> ValueError:
    """The error for a device that a library doesn't know or has none of."""
    return refusal(ValueError, "device", f"must be one that {library} has here, such as cpu, got {device!r}")


def _only_cpu(library: str, device: Any) -> None:
    """Raise ValueError for a device, where all arrays of the library lie in one memory."""
    if device not in (None, "cpu"):
        statement = f'must be None or "cpu", the one place for arrays of {library}, got {device!r}'
        raise refusal(ValueError, "device", statement)


def cast_numpy(array: Any, name: str, device: Any) -> Any:
    """NumPy."""
    import numpy as np

    _only_cpu("numpy", device)
    with np.errstate(all="ignore"):  # a number beyond the dtype becomes inf without a word, as in other libraries
        return array.astype(numpy_dtype(name), copy=False)


def cast_torch(array: Any, name: str, device: Any) -> Any:
    """PyTorch, differentiable."""
    import torch

    if isinstance(device, str):
        _check_torch_has(device)
    return array.to(device=device, dtype=own_dtype(torch, "torch", name))


def _check_torch_has(device: str) -> None:
    """Raise ValueError for a device that PyTorch doesn't know or has none of."""
    import torch

    try:
        kind = torch.device(device).type
        found = getattr(getattr(torch, kind, None), "is_available", lambda: True)()
    except RuntimeError:
        found = False
    if not found:
        raise no_device("torch", device)


def cast_jax(array: Any, name: str, device: Any) -> Any:
    """JAX, differentiable and traceable; what lies on the device already is not committed to it."""
    import jax

    dtype = own_dtype(jax.numpy, "jax", name)
    check_jax_holds(name)
    array = jax.numpy.asarray(array, dtype=dtype)
    if device is None or (not isinstance(array, jax.core.Tracer) and array.devices() == {device}):
        return array
    if isinstance(device, str):
        platform, _, number = device.partition(":")
        try:
            device = jax.devices(platform)[int(number or 0)]
        except (RuntimeError, ValueError, IndexError):
            raise no_device("jax", device) from None
    return jax.device_put(array, device)


def check_jax_holds(name: str) -> None:
    """Raise TypeError for a dtype that JAX as configured would narrow, and not always with a warning."""
    import jax

    if dtype_name(jax.dtypes.canonicalize_dtype(name)) != name:
        raise not_held("jax", name)


def cast_dask(array: Any, name: str, device: Any) -> Any:
    """Dask, lazily."""
    _only_cpu("dask", device)
    dtype = numpy_dtype(name)
    return array if array.dtype == dtype else array.map_blocks(cast_numpy, name, device, dtype=dtype)


def cast_mlx(array: Any, name: str, device: Any) -> Any:
    """MLX, whose arrays lie in one memory: devices are what its operations have."""
    import mlx.core as mx

    _only_cpu("mlx", device)
    return array.astype(own_dtype(mx, "mlx", name))


def cast_cupy(array: Any, name: str, device: Any) -> Any:
    """CuPy."""
    import cupy

    with cupy.cuda.Device() if device is None else cupy.cuda.Device(getattr(device, "id", device)):
        return cupy.asarray(array).astype(own_dtype(cupy, "cupy", name), copy=False)


def cast_standard(array: Any, name: str, device: Any) -> Any:
    """A library that is known only by following the standard."""
    xp = array.__array_namespace__()
    moved = xp.astype(array, own_dtype(xp, xp.__name__, name), copy=False)
    return moved if device is None or moved.device == device else moved.to_device(device)
