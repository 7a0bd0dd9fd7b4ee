"""Moving one array into another library, dtype or device; NumPy is the hub where DLPack doesn't reach.

A target that would narrow the dtype silently (JAX without x64) is asked first: TypeError instead.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from portable_ffn._dtype import dtype_name, is_real_floating
from portable_ffn._library import library_of, not_an_array
from portable_ffn._typing import Array, DType


def move(array: Array, like: Array | None, dtype: DType | None, device: Any) -> Array:
    """`array` in the library and on the device of `like`, in `dtype`, else like's if real floating, else its own.

    Raises TypeError for what is no array, and where the target cannot hold the dtype.
    """
    source = library_of(array)
    target = source if like is None else library_of(like)
    if source is None:
        raise not_an_array("array", array)
    if target is None:
        raise not_an_array("like", like)
    name = dtype_name(array.dtype)
    if dtype is not None:
        name = dtype_name(dtype)
    elif like is not None and is_real_floating(like.dtype):
        name = dtype_name(like.dtype)
    if device is None and like is not None:
        device = _DEVICE[target](like) if target in _DEVICE else None
    place = _PLACE.get(target, _place_standard)
    moved = place(array if source == target else to_numpy(array), like, name, device)
    if dtype_name(moved.dtype) != name:
        raise TypeError(
            f"dtype must be one that {target} holds as configured, got {name}, which it narrows to "
            f"{dtype_name(moved.dtype)}; pass dtype={dtype_name(moved.dtype)!r} to narrow it on purpose",
        )
    return moved


def to_numpy(array: Array) -> Any:
    """The same numbers as a NumPy array, without a copy where the library allows; bfloat16 by ml_dtypes."""
    source = library_of(array)
    if source == "torch":
        array = array.detach().cpu().resolve_neg()
        if dtype_name(array.dtype) == "bfloat16":
            return array.view(importlib.import_module("torch").int16).numpy().view(_numpy_dtype("bfloat16"))
        return array.numpy()
    if source == "mlx" and dtype_name(array.dtype) == "bfloat16":
        mx = importlib.import_module("mlx.core")
        return importlib.import_module("numpy").array(array.view(mx.uint16)).view(_numpy_dtype("bfloat16"))
    if source == "cupy":
        return array.get()
    if source == "dask":
        return array.compute()
    if source == "ndonnx":
        return array.unwrap_numpy()
    return importlib.import_module("numpy").asarray(array)


def _numpy_dtype(name: str) -> Any:
    """NumPy's dtype of that name, ml_dtypes' for bfloat16."""
    holder = "ml_dtypes" if name == "bfloat16" else "numpy"
    return importlib.import_module("numpy").dtype(getattr(importlib.import_module(holder), name))


def _place_numpy(array: Any, like: Any, name: str, device: Any) -> Any:
    """Into NumPy."""
    return array.astype(_numpy_dtype(name), copy=False)


def _place_torch(array: Any, like: Any, name: str, device: Any) -> Any:
    """Into PyTorch: a view of NumPy's memory where that is writable, else a copy, since PyTorch has no read-only."""
    torch = importlib.import_module("torch")
    if not isinstance(array, torch.Tensor):
        if not array.flags.writeable or any(stride < 0 for stride in array.strides):
            array = array.copy()
        if dtype_name(array.dtype) == "bfloat16":
            array = torch.from_numpy(array.view("int16")).view(torch.bfloat16)
        else:
            array = torch.from_numpy(array)
    return array.to(device=device, dtype=getattr(torch, name))


def _place_jax(array: Any, like: Any, name: str, device: Any) -> Any:
    """Into JAX, on its default device where none is given."""
    jax = importlib.import_module("jax")
    if name == "float64" and not jax.config.jax_enable_x64:
        raise TypeError(
            "dtype must be one that jax holds as configured, got float64 with x64 off; "
            'set jax_enable_x64, or pass dtype="float32" to narrow it on purpose',
        )
    placed = jax.numpy.asarray(array, dtype=getattr(jax.numpy, name))
    return placed if device is None else jax.device_put(placed, device)


def _place_dask(array: Any, like: Any, name: str, device: Any) -> Any:
    """Into Dask, in its own choice of chunks."""
    return importlib.import_module("dask.array").asarray(array).astype(_numpy_dtype(name))


def _place_mlx(array: Any, like: Any, name: str, device: Any) -> Any:
    """Into MLX, whose constructor narrows float64 unless it is told."""
    mx = importlib.import_module("mlx.core")
    if isinstance(array, mx.array):
        return array.astype(getattr(mx, name))
    if dtype_name(array.dtype) == "bfloat16":
        return mx.array(array.view("uint16")).view(mx.bfloat16).astype(getattr(mx, name))
    return mx.array(array, dtype=getattr(mx, name))


def _place_standard(array: Any, like: Any, name: str, device: Any) -> Any:
    """Into any library of the standard, by its own `asarray`."""
    xp = (array if like is None else like).__array_namespace__()
    dtype = getattr(xp, name, None)
    if dtype is None:
        raise TypeError(f"dtype must be one that {xp.__name__} has, got {name}")
    options = {} if device is None else {"device": device}
    if hasattr(array, "__array_namespace__") and array.__array_namespace__() is xp:
        moved = xp.astype(array, dtype, copy=False)
        return moved.to_device(device) if options and array.device != device else moved
    return xp.asarray(array, dtype=dtype, **options)


_PLACE: Mapping[str, Callable[[Any, Any, str, Any], Any]] = {
    "numpy": _place_numpy,
    "torch": _place_torch,
    "jax": _place_jax,
    "dask": _place_dask,
    "mlx": _place_mlx,
}
# Where an array lies, for the libraries whose arrays can lie in more than one place.
_DEVICE: Mapping[str, Callable[[Any], Any]] = {
    "torch": lambda like: like.device,
    "cupy": lambda like: like.device,
    "array_api_strict": lambda like: like.device,
    "jax": lambda like: next(iter(like.devices())) if hasattr(like, "devices") and len(like.devices()) == 1 else None,
}
