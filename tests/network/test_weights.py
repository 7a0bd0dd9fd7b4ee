"""Weights that can't be."""

import numpy as np
import pytest

from portable_ffn import (
    init_weights,
)


def test_new_weights_that_cannot_be():
    for arguments, match in (
        ({"dtype": "int32"}, "dtype must be one of bfloat16, float16, float32, float64, got int32"),
        ({"dtype": np.complex64}, "got complex64"),
        ({"like": "torch"}, "like must be an array"),
        ({"seed": 1.5}, "seed must be an integer"),
    ):
        with pytest.raises(TypeError, match=match):
            init_weights(4, **arguments)
    with pytest.raises(ValueError, match="seed must be zero or more, got -1"):
        init_weights(4, seed=-1)
