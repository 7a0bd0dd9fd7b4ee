"""What is no array, or none that can be meant: one clear error each."""

import numpy as np
import pytest

from portable_ffn import (
    Weights,
    feed_forward,
    hidden,
)
from tests.contract import W, X


@pytest.mark.parametrize(
    ("x", "match"),
    [
        (None, r"x must be an array .*got None; make an array"),
        ([[1.0] * 4], r"x must be an array .*got list"),
        (1.0, r"x must be an array .*got float"),
        ("text", r"x must be an array .*got str"),
        (np.ndarray.__new__(np.matrix, (3, 4)), r"x must be a plain array, got numpy\.matrix: .*np\.asarray\(x\)"),
        (np.ma.masked_array(np.ones((3, 4)), mask=np.eye(3, 4)), r"MaskedArray: the mask would be lost.*x\.filled"),
        (X + 0j, r"x must be real floating \(bfloat16, .*\), integer or boolean, got dtype complex128; cast it"),
        (X.astype(object), r"got dtype object"),
        (np.full((3, 4), "a"), r"got dtype str"),
        (X.astype(np.longdouble), r"got dtype (longdouble|float128|float96)"),
    ],
    ids=["none", "list", "float", "str", "matrix", "masked", "complex", "object", "string", "longdouble"],
)
def test_what_is_no_array(x, match):
    with pytest.raises(TypeError, match=match):
        feed_forward(x, *W)


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_every_argument_is_asked(place):
    wrong = list(W)
    wrong[place] = [1.0]
    with pytest.raises(TypeError, match=rf"{Weights._fields[place]} must be an array .*got list"):
        feed_forward(X, *wrong)
    wrong[place] = W[place].astype(complex)
    with pytest.raises(TypeError, match=rf"{Weights._fields[place]} must be real floating"):
        feed_forward(X, *wrong)


def test_float8_is_no_dtype_to_compute_in():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="NumPy's float8 comes from it")
    with pytest.raises(TypeError, match="got dtype float8_e4m3fn"):
        feed_forward(X.astype(ml_dtypes.float8_e4m3fn), *W)


def test_weights_that_are_missing():
    for place, name in ((0, "W1"), (2, "W2")):
        wrong = list(W)
        wrong[place] = None
        with pytest.raises(TypeError, match=f"{name} must be an array, got None; only biases and V may be None"):
            feed_forward(X, *wrong)
    with pytest.raises(TypeError, match="W1 must be an array, got None"):
        hidden(X, None, None)
