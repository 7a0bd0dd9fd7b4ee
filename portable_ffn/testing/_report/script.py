"""The smallest failing input as a program that runs: its numbers, the oracle's answer, and the call."""

from collections.abc import Iterable

import numpy as np

from portable_ffn.testing._backends.arrays import Float64
from portable_ffn.testing._measure.example import Example
from portable_ffn.testing._report.rows import Row
from portable_ffn.testing._report.run import Run

# A program of more numbers is nothing that anybody reads.
MOST = 3000
_NAMES = ("W1", "b1", "W2", "b2", "V", "c")
# How each library makes an array of NumPy's; where a library isn't here, the program stays with NumPy.
_ASARRAY = {
    "torch": ("import torch", "torch.asarray({})"),
    "jax": ("import jax.numpy as jnp", "jnp.asarray({})"),
    "mlx": ("import mlx.core as mx", "mx.array({})"),
    "cupy": ("import cupy", "cupy.asarray({})"),
    "dask": ("import dask.array as da", "da.asarray({})"),
    "tensorflow": ("import tensorflow as tf", "tf.constant({})"),
}


def script(rows: Iterable[Row], run: Run) -> str:
    """The program for the failing row with the fewest numbers; empty where all are too long or none has any."""
    shown = [(row, row.example) for row in rows if row.example is not None and row.example.inputs is not None]
    sized = [(_size(example), row, example) for row, example in shown]
    if not sized:
        return ""
    size, row, example = min(sized, key=lambda one: one[0])
    return "" if size > MOST else _program(row, example, run)


def _size(example: Example) -> int:
    """How many numbers a program would hold."""
    assert example.inputs is not None
    return sum(array.size for array in (example.inputs.x, *example.inputs.weights) if array is not None)


def _program(row: Row, example: Example, run: Run) -> str:
    """The lines."""
    assert example.inputs is not None
    x, weights = example.inputs
    library = row.backend.partition(":")[0]
    importing, asarray = _ASARRAY.get(library, ("", "{}"))
    given = {"x": x, **{name: array for name, array in zip(_NAMES, weights, strict=True) if array is not None}}
    module, name = run.importable or ("mine", "network")
    half = row.dtype == "bfloat16"
    lines = [
        f'"""{row.backend} {row.device} {row.dtype}, {row.activation}, {row.case!r}: the smallest failing input."""',
        "",
        "import numpy as np",
        *(["import ml_dtypes"] if half else []),
        *([importing] if importing else []),
        f"from {module} import {name}" + ("" if run.importable else "  # put your network's name here"),
        "from portable_ffn import oracle",
        "",
        f"dtype = {'ml_dtypes.bfloat16' if half else repr(row.dtype)}",
        *(f"{key} = {_literal(array)}" for key, array in given.items()),
        *(f"{key} = None" for key in ("b1", "b2") if key not in given),
        *(f"{key} = None" for key in ("V", "c") if key not in given and "V" in given),
        "",
    ]
    order = "W1, b1, W2, b2" + (", V, c" if "V" in given else "")
    taken = ", ".join(name for name in ("W1", "b1", "W2", "b2", "V", "c") if name in given)
    call = ", ".join(asarray.format(one) for one in ["x", *taken.split(", ")])
    activation = repr(row.activation) if row.activation.isidentifier() else f"None  # {row.activation}"
    return "\n".join(
        [
            *lines,
            f"y, bound = oracle.feed_forward(x, {order}, activation={activation})",
            f"got = np.asarray({name}({call}), dtype=np.float64)",
            'print("expected", y)',
            'print("got     ", got)',
            'print("off by  ", np.max(np.abs(got - y) / bound), "times the bound")',
        ]
    )


def _literal(array: Float64) -> str:
    """An array as one would type it."""
    if array.size > 8 and np.all(array == array.flat[0]):
        return f"np.full({array.shape}, {float(array.flat[0])!r}).astype(dtype)"
    if (
        array.ndim == 2
        and array.shape[0] == array.shape[1] > 2
        and np.array_equal(array, array[0, 0] * np.eye(len(array)))
    ):
        return f"({float(array[0, 0])!r} * np.eye({len(array)})).astype(dtype)"
    numbers = repr(array.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    return f"np.array({numbers}).astype(dtype)"
