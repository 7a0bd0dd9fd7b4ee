"""TensorFlow, Paddle and tinygrad, whose arrays are not of the standard: their casts, and how NumPy sees them."""

from typing import Any

from portable_ffn._arrays.dtype import dtype_name, numpy_dtype, own_dtype
from portable_ffn._transfer.cast import no_device


def cast_tensorflow(array: Any, name: str, device: Any) -> Any:
    """TensorFlow, differentiable and in a graph; a variable becomes a tensor."""
    import tensorflow as tf

    cast = tf.cast(array, own_dtype(tf, "tensorflow", name))
    if not device or device == cast.device:
        return cast
    try:
        with tf.device(device):
            return tf.identity(cast)
    except (ValueError, RuntimeError, tf.errors.InvalidArgumentError):
        raise no_device("tensorflow", device) from None


def tensorflow_from_numpy(array: Any, like: Any) -> Any:
    """A copy: TensorFlow may else keep NumPy's own memory.

    Other libraries' memory is never taken by DLPack: TensorFlow 2.21 takes it at any address, and its kernels for whole
    vectors end the process where that is no multiple of their size.
    """
    import tensorflow as tf

    return tf.constant(array)


def tensorflow_give(array: Any) -> Any:
    """The value of a tensor or a variable; BufferError where it is none yet."""
    import tensorflow as tf

    if not tf.is_tensor(array) or isinstance(array, tf.Variable):
        array = tf.convert_to_tensor(array)
    if not hasattr(array, "__dlpack__"):
        raise BufferError
    return array


def cast_paddle(array: Any, name: str, device: Any) -> Any:
    """Paddle, differentiable."""
    import paddle

    own_dtype(paddle, "paddle", name)
    cast = array.astype(name)
    if device is None or not hasattr(cast, "place") or device == cast.place:
        return cast
    try:
        return cast.to(device)
    except (ValueError, RuntimeError):
        raise no_device("paddle", device) from None


def paddle_to_numpy(array: Any) -> Any:
    """A copy; Paddle shows its bfloat16 as integers of 16 bits."""
    import paddle

    seen = array.detach().cpu().numpy()
    return seen.view(numpy_dtype("bfloat16")) if array.dtype == paddle.bfloat16 else seen


def paddle_from_numpy(array: Any, like: Any) -> Any:
    """A copy; integers of 16 bits are how Paddle takes bfloat16."""
    import paddle

    bits = array.view("uint16") if dtype_name(array.dtype) == "bfloat16" else array
    return paddle.to_tensor(bits, place=paddle.CPUPlace())


def cast_tinygrad(array: Any, name: str, device: Any) -> Any:
    """tinygrad, lazily and differentiable."""
    from tinygrad import dtypes

    cast = array.cast(own_dtype(dtypes, "tinygrad", name))
    return cast if device is None or device == cast.device else cast.to(device)


def tinygrad_to_numpy(array: Any) -> Any:
    """A copy, computed now; NumPy's bfloat16 by its bits."""
    from tinygrad import dtypes

    if array.dtype == dtypes.bfloat16:
        return array.bitcast(dtypes.uint16).numpy().view(numpy_dtype("bfloat16"))
    return array.numpy()


def tinygrad_from_numpy(array: Any, like: Any) -> Any:
    """A copy made now: left alone, tinygrad reads NumPy's memory when it is asked to compute."""
    from tinygrad import Tensor, dtypes

    if dtype_name(array.dtype) == "bfloat16":
        return Tensor(array.view("uint16").copy()).bitcast(dtypes.bfloat16)
    return Tensor(array.copy())


def dpnp_to_numpy(array: Any) -> Any:
    """A copy from its device."""
    import dpnp

    return dpnp.asnumpy(array)


def dpnp_from_numpy(array: Any, like: Any) -> Any:
    """A copy on the queue of like."""
    import dpnp

    own_dtype(dpnp, "dpnp", dtype_name(array.dtype))
    return dpnp.asarray(array, sycl_queue=like.sycl_queue)
