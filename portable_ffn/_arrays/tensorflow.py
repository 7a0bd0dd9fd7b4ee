"""TensorFlow as a namespace of the standard: what it calls otherwise, and numbers in the dtype of what they meet.

Of eager tensors, variables and the tensors of a `tf.function`, whose leading lengths may be unknown: nothing here reads
a length, and everything is differentiated by TensorFlow itself.
"""

from typing import Any

import tensorflow as tf

expm1, log1p = tf.math.expm1, tf.math.log1p
matrix_transpose = tf.linalg.matrix_transpose


def __getattr__(name: str) -> Any:
    return getattr(tf, name)


class _Info:
    """What the standard asks of a library about itself."""

    def default_dtypes(self) -> dict[str, Any]:
        """What TensorFlow makes of Python floats."""
        return {"real floating": tf.float32}


def __array_namespace_info__() -> _Info:
    return _Info()


def astype(x: Any, dtype: Any) -> Any:
    """The tensor in another dtype."""
    return tf.cast(x, dtype)


def asarray(values: Any, *, dtype: Any = None) -> Any:
    """A tensor of numbers."""
    return tf.convert_to_tensor(values, dtype)


def where(condition: Any, one: Any, other: Any) -> Any:
    """One or the other; a number takes the dtype of the tensor beside it, where TensorFlow would take float32."""
    if not hasattr(one, "dtype"):
        one = tf.constant(one, other.dtype)
    elif not hasattr(other, "dtype"):
        other = tf.constant(other, one.dtype)
    return tf.where(condition, one, other)


def matmul(x: Any, W: Any) -> Any:
    """The product over the last axis of x: one product of two matrices, however many leading axes there are."""
    return tf.matmul(x, W) if len(x.shape) == 2 else tf.tensordot(x, W, 1)


def tensordot(a: Any, b: Any, *, axes: tuple[list[int], list[int]]) -> Any:
    """The sum of products over some axes; over none every product."""
    return tf.tensordot(a, b, axes if axes[0] else 0)


def sum(x: Any, *, axis: tuple[int, ...]) -> Any:
    """The sum over some axes."""
    return tf.reduce_sum(x, axis)


def mean(x: Any, *, axis: int, keepdims: bool = False) -> Any:
    """The mean over an axis."""
    return tf.reduce_mean(x, axis, keepdims)
