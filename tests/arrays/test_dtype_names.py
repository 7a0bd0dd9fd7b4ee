"""Libraries print their dtypes in ways of their own; the rule knows them by the standard's names."""

import enum

import numpy as np
import pytest

from portable_ffn._arrays.dtype import dtype_name


class Said:
    """A dtype that has a name."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"Said({self.name!r})"


class Printed:
    """A dtype that only prints itself."""

    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text

    __repr__ = __str__


class InCapitals(enum.Enum):
    """As Paddle's dtypes are named."""

    FLOAT32 = 10


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        ("float32", "float32"),
        (np.dtype(">f4"), "float32"),
        (np.float16, "float16"),
        (InCapitals.FLOAT32, "float32"),
        (Said("BFLOAT16"), "bfloat16"),
        (Said("__bf16"), "bfloat16"),  # tinygrad names types of C
        (Said("half"), "float16"),
        (Said("float"), "float32"),
        (Said("double"), "float64"),
        (Said("int"), "int32"),
        (Said("unsigned char"), "uint8"),
        (Printed("somelibrary.float64"), "float64"),
    ],
    ids=repr,
)
def test_names(dtype, name):
    assert dtype_name(dtype) == name
