"""Ways of running a network: what a row of the table of backends makes of the function that is called."""

import importlib
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]


def as_it_is(fn: Function) -> Function:
    """fn itself."""
    return fn


def generic(fn: Function) -> Function:
    """fn with the table of native rows emptied, so that only functions of the standard are called."""
    native = importlib.import_module("portable_ffn._native.table")

    def plain(*arrays: Any) -> Any:
        with native.without_native():
            return fn(*arrays)

    return plain


def jit(fn: Function) -> Function:
    """fn traced and compiled by XLA."""
    compiled: Function = importlib.import_module("jax").jit(fn)
    return compiled


def compile(fn: Function) -> Function:
    """fn traced whole by Dynamo and compiled by Inductor."""
    compiled: Function = importlib.import_module("torch").compile(fn, fullgraph=True)
    return compiled


def function(fn: Function) -> Function:
    """fn as a graph of TensorFlow, for x of any lengths but the last."""
    tf = importlib.import_module("tensorflow")

    def traced(*arrays: Any) -> Any:
        given = [array for array in arrays if array is not None]
        specs = [tf.TensorSpec(array.shape, array.dtype) for array in given]
        specs[0] = tf.TensorSpec([None] * (len(given[0].shape) - 1) + [given[0].shape[-1]], given[0].dtype)

        def body(*inner: Any) -> Any:
            rest = iter(inner)
            return fn(*(None if array is None else next(rest) for array in arrays))

        return tf.function(body, input_signature=specs)(*given)

    return traced


def xla(fn: Function) -> Function:
    """fn compiled by XLA in TensorFlow."""
    compiled: Function = importlib.import_module("tensorflow").function(fn, jit_compile=True)
    return compiled


def static(fn: Function) -> Function:
    """fn as a program of Paddle."""
    paddle = importlib.import_module("paddle")

    def network(x: Any, W1: Any, b1: Any, W2: Any, b2: Any, V: Any, c: Any) -> Any:
        return fn(x, W1, b1, W2, b2, V, c)

    return lambda *arrays: paddle.jit.to_static(network, full_graph=True)(*arrays, *[None] * (7 - len(arrays)))


def tinyjit(fn: Function) -> Function:
    """fn captured by tinygrad and replayed: the third call is the first that doesn't run Python."""
    tinygrad = importlib.import_module("tinygrad")

    def replayed(*arrays: Any) -> Any:
        jitted = tinygrad.TinyJit(lambda *given: fn(*given).realize())
        given = [None if array is None else array.realize() for array in arrays]
        for _ in range(3):
            y = jitted(*given)
        return y

    return replayed
