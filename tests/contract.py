"""Two networks and an input, put on every library that is found."""

import numpy as np
import pytest

from portable_ffn import (
    ACTIVATIONS,
    init_weights,
)
from portable_ffn.testing import BACKENDS

W = init_weights(4, 8)
G = init_weights(4, 8, gated=True)
X = np.random.default_rng(0).standard_normal((3, 4))

# One row a library; whether a demanded one is missing is the matrix's matter.
LIBRARIES = [row for row in BACKENDS.values() if ":" not in row.name and row.missing() is None]

# ndonnx takes a second or two a graph: two activations there, every one elsewhere.
EVERY_ACTIVATION = [
    (row, name) for row in LIBRARIES for name in (("relu", "gelu") if row.name == "ndonnx" else sorted(ACTIVATIONS))
]
every_activation = pytest.mark.parametrize(
    ("backend", "activation"), EVERY_ACTIVATION, ids=lambda value: getattr(value, "name", value)
)
every_backend = pytest.mark.parametrize("backend", LIBRARIES, ids=lambda backend: backend.name)


def put(backend, arrays, dtype="float64"):
    return [None if a is None else backend.put(a, dtype) for a in arrays]
