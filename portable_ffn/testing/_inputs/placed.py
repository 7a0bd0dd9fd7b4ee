"""A case's inputs as real arrays of a backend: placed before the call, in the network's order, and looked at after."""

from typing import Any

import numpy as np

from portable_ffn._arrays.library import namespace
from portable_ffn.testing._backends.arrays import take
from portable_ffn.testing._backends.table import Backend, Function
from portable_ffn.testing._inputs.cases import Case, Inputs
from portable_ffn.testing._inputs.signature import ARRAYS


def positional(fn: Function, order: tuple[str, ...]) -> Function:
    """The network as a function of all seven arrays, called with those that it takes."""
    places = [ARRAYS.index(name) for name in order]

    def network(*arrays: Any) -> Any:
        return fn(*[arrays[place] for place in places])

    return network


def placed(backend: Backend, device: str, dtype: str, case: Case, inputs: Inputs) -> list[Any]:
    """The inputs as arrays of the backend, lying in memory as the case says; None where None."""
    x = np.repeat(inputs.x, 2, axis=-1) if case.strided else inputs.x
    first = backend.put(x, dtype, device)
    arrays = [first[..., ::2] if case.strided else first]
    for values in inputs.weights:
        if values is None:
            arrays.append(None)
        elif case.transposed and values.ndim == 2:
            arrays.append(_turned(backend.put(values.T, dtype, device)))
        else:
            arrays.append(backend.put(values, dtype, device))
    if case.read_only and backend.library == "numpy":
        for array in arrays:
            if array is not None:
                array.flags.writeable = False
    return arrays


def _turned(array: Any) -> Any:
    """The matrix transposed, a view where its library has views; TensorFlow's tensors have no `T`."""
    return array.T if hasattr(array, "T") else namespace(array).matrix_transpose(array)


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
