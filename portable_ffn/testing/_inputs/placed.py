"""A case's inputs as real arrays of a backend: placed before the call, in the network's order, and looked at after."""

from collections.abc import Callable
from typing import Any

import numpy as np

from portable_ffn._arrays.library import namespace
from portable_ffn.testing._backends.arrays import Float64, take
from portable_ffn.testing._backends.table import Backend, Function
from portable_ffn.testing._inputs.build import Inputs
from portable_ffn.testing._inputs.cases import Case
from portable_ffn.testing._inputs.signature import ARRAYS


def positional(fn: Function, order: tuple[str, ...]) -> Function:
    """The network as a function of all seven arrays, called with those that it takes."""
    places = [ARRAYS.index(name) for name in order]

    def network(*arrays: Any) -> Any:
        return fn(*[arrays[place] for place in places])

    return network


def placed(backend: Backend, device: str, dtype: str, case: Case, inputs: Inputs) -> list[Any]:
    """The inputs as arrays of the backend, lying in memory as the case says; None where None."""

    def put(values: Float64) -> Any:
        return backend.put(values, dtype, device)

    arrays = [None if values is None else _laid(put, backend, case, values) for values in (inputs.x, *inputs.weights)]
    if case.read_only and backend.library == "numpy":
        for array in arrays:
            if array is not None:
                array.flags.writeable = False
    return arrays


def _turned(array: Any) -> Any:
    """The matrix transposed, a view where its library has views; TensorFlow's tensors have no `T`."""
    return array.T if hasattr(array, "T") else namespace(array).matrix_transpose(array)


def _laid(put: Callable[[Float64], Any], backend: Backend, case: Case, values: Float64) -> Any:
    """One array, lying in memory as the case says."""
    if case.transposed and values.ndim == 2:
        # In the order of the transpose: a copy that kept NumPy's order would turn it back.
        return _turned(put(np.ascontiguousarray(values.T)))
    if case.strided:
        return put(np.repeat(values, 2, axis=-1))[..., ::2]
    if case.reversed and backend.library in ("numpy", "cupy"):  # PyTorch has no negative strides
        backwards = tuple(slice(None, None, -1) for _ in values.shape)
        return put(np.ascontiguousarray(values[backwards]))[backwards]
    if case.sliced:
        inside = tuple(slice(1, 1 + n) for n in values.shape)
        return put(np.pad(values, [(1, 2)] * values.ndim))[inside]
    if case.shared:
        return put(values)[...]
    return put(values)


def written(arrays: list[Any], inputs: Inputs, served: str, dtype: str) -> str:
    """Which of the caller's arrays the network has written to."""
    if served != dtype:
        return ""
    before = (inputs.x, *inputs.weights)
    changed = [
        name
        for name, array, values in zip(ARRAYS, arrays, before, strict=True)
        if array is not None and values is not None and not np.array_equal(take(array), values, equal_nan=True)
    ]
    return f"the caller's arrays must not be written to, but {', '.join(changed)} changed" if changed else ""
