"""The memory of one library's array, seen by another: through NumPy's eyes, or by DLPack."""

from typing import Any

from portable_ffn._arrays.dtype import dtype_name, numpy_dtype, own_dtype
from portable_ffn._arrays.kind import kind_of
from portable_ffn._transfer.cast import check_jax_holds


def seen_by_numpy(array: Any) -> Any:
    """What NumPy reads by itself: a view, read-only where the library says so."""
    import numpy as np

    return np.asarray(array)


def _from_bits(array: Any) -> Any:
    """16-bit integers as bfloat16, which neither NumPy's DLPack nor the buffer protocol has."""
    return array.view(numpy_dtype("bfloat16"))


def torch_to_numpy(array: Any) -> Any:
    """A view outside of autograd."""
    import torch

    if hasattr(array, "full_tensor"):  # one that is spread over processes
        array = array.full_tensor()
    array = array.detach().cpu()
    array = (array if array.layout is torch.strided else array.to_dense()).resolve_conj().resolve_neg()
    return _from_bits(array.view(torch.int16).numpy()) if array.dtype == torch.bfloat16 else array.numpy()


def torch_from_numpy(array: Any, like: Any) -> Any:
    """A view where PyTorch can have one: it has neither read-only tensors nor negative strides."""
    import torch

    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    if dtype_name(array.dtype) == "bfloat16":
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


def torch_take(array: Any, like: Any) -> Any:
    """A tensor on memory that speaks DLPack; negative strides would end the process there (2.13)."""
    import torch

    if any(stride < 0 for stride in getattr(array, "strides", ())):
        raise BufferError
    return torch.utils.dlpack.from_dlpack(array)


def jax_from_numpy(array: Any, like: Any) -> Any:
    """A copy that is committed to no device."""
    import jax.numpy as jnp

    return jnp.asarray(array)


def jax_take(array: Any, like: Any) -> Any:
    """An array on memory that speaks DLPack, where JAX takes its alignment, else a copy; never narrowed.

    JAX commits it to its one device, which would not go together with an array that is spread over several.
    """
    import jax.numpy as jnp

    check_jax_holds(dtype_name(array.dtype))
    if jax_device(like) is None:
        raise BufferError
    return jnp.from_dlpack(array)


def jax_device(like: Any) -> Any:
    """The one device that an array lies on; None for a traced one and for one spread over several."""
    import jax

    one = not isinstance(like, jax.core.Tracer) and len(like.devices()) == 1
    return next(iter(like.devices())) if one else None


def dask_from_numpy(array: Any, like: Any) -> Any:
    """A Dask array on the same memory, in chunks of Dask's choice."""
    import dask.array as da

    return da.from_array(array)  # type: ignore[no-untyped-call]


def mlx_to_numpy(array: Any) -> Any:
    """A view that NumPy will not write: MLX's arrays are values."""
    import mlx.core as mx

    half = array.dtype == mx.bfloat16
    seen = seen_by_numpy(array.view(mx.uint16) if half else array)
    seen.flags.writeable = False
    return _from_bits(seen) if half else seen


def mlx_from_numpy(array: Any, like: Any) -> Any:
    """A copy, in the dtype that NumPy says: left alone, MLX would narrow float64."""
    import mlx.core as mx
    import numpy as np

    array, name = np.ascontiguousarray(array).reshape(array.shape), dtype_name(array.dtype)
    dtype = own_dtype(mx, "mlx", name)
    return mx.array(array.view("uint16")).view(dtype) if name == "bfloat16" else mx.array(array, dtype=dtype)


def cupy_from_numpy(array: Any, like: Any) -> Any:
    """A copy on the current device."""
    import cupy

    return cupy.asarray(array)


def cupy_take(array: Any, like: Any) -> Any:
    """An array on memory that speaks DLPack."""
    import cupy

    return cupy.from_dlpack(array)


def standard_to_numpy(array: Any) -> Any:
    """What NumPy reads by itself; else by DLPack, from another device too; else the dense form of a sparse array."""
    import numpy as np

    try:
        seen = np.asarray(array)
    except Exception:  # each library refuses in its own way
        seen = None
    if seen is not None and seen.dtype != object:
        return seen
    if hasattr(array, "__dlpack__"):
        return np.from_dlpack(array, device="cpu")
    if hasattr(array, "todense"):
        return np.asarray(array.todense())
    raise TypeError(f"array must be one that NumPy can read, got {kind_of(array)}; it has no __dlpack__")


def strict_to_numpy(array: Any) -> Any:
    """A view of what lies on its first device; NumPy can't see the others."""
    return seen_by_numpy(array.to_device(array.__array_namespace__().Device("CPU_DEVICE")))


def standard_from_numpy(array: Any, like: Any) -> Any:
    """What a library that is known only by following the standard makes of it."""
    xp = like.__array_namespace__()
    own_dtype(xp, xp.__name__, dtype_name(array.dtype))
    return xp.asarray(array)
