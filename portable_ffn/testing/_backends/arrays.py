"""Real arrays of each library from NumPy and back, and where they lie.

Written for the checks alone: the package's own ways between libraries are among what is checked.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from portable_ffn._arrays.library import library_of
from portable_ffn.testing._backends import frameworks
from portable_ffn.testing._backends.held import Float64 as Float64  # as themselves: others import them from here
from portable_ffn.testing._backends.held import Values as Values
from portable_ffn.testing._backends.held import held as held
from portable_ffn.testing._backends.held import numpy_dtype


def _put_numpy(values: Values, dtype: str, device: str) -> Any:
    """A new array of NumPy."""
    return np.array(values, dtype=numpy_dtype(dtype))


def _put_torch(values: Values, dtype: str, device: str) -> Any:
    """A tensor."""
    torch = importlib.import_module("torch")
    return torch.from_numpy(np.array(values)).to(dtype=getattr(torch, dtype), device=device)


def _put_jax(values: Values, dtype: str, device: str) -> Any:
    """An array of JAX, which narrows float64 where x64 is off."""
    jax = importlib.import_module("jax")
    platform, _, index = device.partition(":")
    place = jax.devices(platform)[int(index or 0)]
    with np.errstate(over="ignore"):
        return jax.device_put(np.array(values, dtype=numpy_dtype(dtype)), place)


def _put_strict(values: Values, dtype: str, device: str) -> Any:
    """An array of array-api-strict on one of its made-up devices."""
    strict = importlib.import_module("array_api_strict")
    return strict.asarray(np.array(values, dtype=numpy_dtype(dtype)), device=strict.Device(device))


def _put_dask(values: Values, dtype: str, device: str) -> Any:
    """A Dask array of two chunks an axis, so that products have to cross their borders."""
    array = np.array(values, dtype=numpy_dtype(dtype))
    chunks = tuple(max(1, -(-n // 2)) for n in array.shape)
    return importlib.import_module("dask.array").from_array(array, chunks=chunks)


def _put_ndonnx(values: Values, dtype: str, device: str) -> Any:
    """An ndonnx array that holds its values."""
    return importlib.import_module("ndonnx").asarray(np.array(values, dtype=numpy_dtype(dtype)))


def _put_mlx(values: Values, dtype: str, device: str) -> Any:
    """An array of MLX, whose constructor narrows float64 unless it is told."""
    mx = importlib.import_module("mlx.core")
    array = np.array(values, dtype=numpy_dtype(dtype))
    if dtype == "bfloat16":
        return mx.array(array.view(np.uint16)).view(mx.bfloat16)
    return mx.array(array, dtype=getattr(mx, dtype if dtype != "bool" else "bool_"))


def _put_cupy(values: Values, dtype: str, device: str) -> Any:
    """An array of CuPy."""
    cupy = importlib.import_module("cupy")
    with cupy.cuda.Device(int(device.partition(":")[2] or 0)):
        return cupy.asarray(np.array(values, dtype=numpy_dtype(dtype)))


def _take_numpy(array: Any) -> Float64:
    """Of NumPy and of what NumPy reads without a loss."""
    return np.asarray(array).astype(np.float64)


def _take_torch(array: Any) -> Float64:
    """Of PyTorch: widened there, since NumPy has no bfloat16."""
    torch = importlib.import_module("torch")
    result: Float64 = array.detach().cpu().to(torch.float64).resolve_conj().resolve_neg().numpy()
    return result


def _take_strict(array: Any) -> Float64:
    """Of array-api-strict, from its CPU device."""
    strict = importlib.import_module("array_api_strict")
    return np.asarray(array.to_device(strict.Device("CPU_DEVICE"))).astype(np.float64)


def _take_dask(array: Any) -> Float64:
    """Of Dask: this is where it is asked to compute."""
    with np.errstate(all="ignore"):
        return np.asarray(array.compute(scheduler="synchronous")).astype(np.float64)


def _take_ndonnx(array: Any) -> Float64:
    """Of ndonnx: this is where onnxruntime computes."""
    return np.asarray(array.unwrap_numpy()).astype(np.float64)


def _take_mlx(array: Any) -> Float64:
    """Of MLX: bfloat16 by way of float32, which holds it."""
    mx = importlib.import_module("mlx.core")
    return np.asarray(array.astype(mx.float32) if array.dtype == mx.bfloat16 else array).astype(np.float64)


def _take_cupy(array: Any) -> Float64:
    """Of CuPy."""
    return np.asarray(array.get()).astype(np.float64)


PUT: Mapping[str, Callable[[Values, str, str], Any]] = {
    "numpy": _put_numpy,
    "torch": _put_torch,
    "jax": _put_jax,
    "array_api_strict": _put_strict,
    "dask": _put_dask,
    "ndonnx": _put_ndonnx,
    "mlx": _put_mlx,
    "cupy": _put_cupy,
    "tensorflow": frameworks.put_tensorflow,
    "paddle": frameworks.put_paddle,
    "tinygrad": frameworks.put_tinygrad,
    "dpnp": frameworks.put_dpnp,
}
_TAKE: Mapping[str, Callable[[Any], Float64]] = {
    "numpy": _take_numpy,
    "torch": _take_torch,
    "jax": _take_numpy,
    "array_api_strict": _take_strict,
    "dask": _take_dask,
    "ndonnx": _take_ndonnx,
    "mlx": _take_mlx,
    "cupy": _take_cupy,
    "tensorflow": frameworks.take_tensorflow,
    "paddle": frameworks.take_paddle,
    "tinygrad": frameworks.take_tinygrad,
    "dpnp": frameworks.take_dpnp,
}
# Where an array lies, in the words of the table of backends; "cpu" for the libraries without devices.
_DEVICE: Mapping[str, Callable[[Any], str]] = {
    "torch": lambda array: str(array.device),
    "jax": lambda array: ", ".join(sorted(f"{device.platform}:{device.id}" for device in array.devices())),
    "array_api_strict": lambda array: str(array.device).split("'")[1],
    "cupy": lambda array: f"cuda:{array.device.id}",
}


def take(array: Any) -> Float64:
    """The values of an array of any library of the table in float64, which holds all of them."""
    return _TAKE.get(library_of(array) or "", _take_numpy)(array)


def device_of(array: Any) -> str:
    """The device that an array lies on, as the table of backends spells it."""
    read = _DEVICE.get(library_of(array) or "")
    return "cpu" if read is None else read(array)
