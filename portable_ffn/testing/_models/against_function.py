"""A layer of a checkpoint against a function that is called with the layer's weights, in the arrays of a library."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from portable_ffn import Weights
from portable_ffn._arrays.dtype import LOW_PRECISION, dtype_name
from portable_ffn.testing._backends.arrays import Float64, held
from portable_ffn.testing._backends.table import Backend, Function
from portable_ffn.testing._faults.diagnosis import diagnose
from portable_ffn.testing._faults.failure import Evidence
from portable_ffn.testing._faults.row import meant_by
from portable_ffn.testing._inputs.build import Inputs
from portable_ffn.testing._inputs.signature import ARRAYS, arrays_taken
from portable_ffn.testing._measure.bound import bounded, dtype_of, plain
from portable_ffn.testing._measure.compare import compare
from portable_ffn.testing._measure.example import smallest
from portable_ffn.testing._models.layer import Layer, measured


def against_function(
    record: Layer,
    a: Any,
    fn: Function,
    x: Float64,
    dtype: str | None,
    library: Backend,
    explains: Callable[[Weights], bool],
) -> Layer:
    """The record of a function, measured on the layer's weights and once more with W2 = I.

    The second shows the hidden layer, as much of it as the output is wide, where no long sum hides a fault.
    """
    if a.middle is not None:
        raise ValueError("a layer that normalises between its matrices is no function(x, W1, b1, W2, b2)")
    own = dtype_of(a.weights)
    # NumPy has no product of its own in half precision; float32 holds the same weights.
    dtype = dtype or ("float32" if library.library == "numpy" and own in LOW_PRECISION else own)
    weights = Weights(*(None if w is None else held(w, dtype) for w in a.weights))
    # What normalises before belongs to the model; the function is given what enters W1.
    x = held(x if a.before is None else np.asarray(a.before(x), dtype=np.float64), dtype)
    taken = arrays_taken(fn, weights.gated, any(w is not None for w in (weights.b1, weights.b2, weights.c)))
    called = library.wrap(fn)

    def call(few: Inputs) -> tuple[Any, Any]:
        arrays = dict(zip(ARRAYS, (few.x, *few.weights), strict=True))
        given = [None if arrays[name] is None else library.put(arrays[name], dtype) for name in taken]
        with np.errstate(all="ignore"):
            return called(*given), given[0]

    def run(given: Inputs) -> Layer:
        with library.inside():
            got, like = call(given)
            served = dtype_name(like.dtype)
            expected, bound = bounded(replace(plain(a), weights=given.weights), given.x, served)
            found = compare(got, like, expected, bound, dtype=served)
            example = smallest(given, found, expected, bound, lambda few: call(few)[0])
        layer = measured(replace(record, dtype=served, example=example), found, expected, bound)
        if layer.status == "pass" or not explains(weights):
            return layer
        came = dtype_name(got.dtype) if hasattr(got, "dtype") else ""
        evidence = Evidence(given.x, given.weights, a.activation, served, came, found.values, expected, bound)
        return replace(layer, causes=diagnose([evidence], meant_by(a.activation, given.weights)).causes)

    whole = run(Inputs(x, weights))
    if whole.status == "fail":
        return whole
    b2 = None if weights.b2 is None else np.zeros_like(weights.b2)
    probe = run(Inputs(x, weights._replace(W2=np.eye(*weights.W2.shape), b2=b2)))
    return whole if probe.status == "pass" else replace(probe, message=f"with W2 = I {probe.message}")
