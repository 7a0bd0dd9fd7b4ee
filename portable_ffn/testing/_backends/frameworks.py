"""Arrays of TensorFlow, Paddle, tinygrad and dpnp from NumPy's and back."""

import importlib
from typing import Any

import numpy as np

from portable_ffn.testing._backends.held import Float64, Values, held, numpy_dtype


def put_tensorflow(values: Values, dtype: str, device: str) -> Any:
    """An eager tensor."""
    tf = importlib.import_module("tensorflow")
    return tf.constant(np.array(values, dtype=numpy_dtype(dtype)), dtype=dtype)


def put_paddle(values: Values, dtype: str, device: str) -> Any:
    """An eager tensor; of bfloat16 by way of float32, which Paddle rounds to nearest."""
    paddle = importlib.import_module("paddle")
    near = held(values, dtype) if dtype == "bfloat16" else values
    array = np.array(near, dtype="float32" if dtype == "bfloat16" else numpy_dtype(dtype))
    return paddle.to_tensor(array, place=paddle.CPUPlace()).astype(dtype)


def put_tinygrad(values: Values, dtype: str, device: str) -> Any:
    """A tensor that is there."""
    tinygrad = importlib.import_module("tinygrad")
    near = held(values, dtype) if dtype == "bfloat16" else values
    array = np.array(near, dtype="float32" if dtype == "bfloat16" else numpy_dtype(dtype))
    return tinygrad.Tensor(array).cast(getattr(tinygrad.dtypes, dtype)).realize()


def put_dpnp(values: Values, dtype: str, device: str) -> Any:
    """An array on the default device."""
    return importlib.import_module("dpnp").asarray(np.array(values, dtype=numpy_dtype(dtype)))


def take_tensorflow(array: Any) -> Float64:
    """Of TensorFlow, from whichever device."""
    return np.asarray(array.numpy()).astype(np.float64)


def take_paddle(array: Any) -> Float64:
    """Of Paddle, whose bfloat16 NumPy would see as integers: widened there."""
    return np.asarray(array.detach().astype("float64").numpy())


def take_tinygrad(array: Any) -> Float64:
    """Of tinygrad: this is where it computes, if it has not."""
    tinygrad = importlib.import_module("tinygrad")
    return np.asarray(array.cast(tinygrad.dtypes.float64).numpy())


def take_dpnp(array: Any) -> Float64:
    """Of dpnp, from its device."""
    return np.asarray(importlib.import_module("dpnp").asnumpy(array)).astype(np.float64)
