"""Networks of plain NumPy, and checks of them in its two wide dtypes."""

import numpy as np

from portable_ffn.testing import Row, check


def network(x, W1, b1, W2, b2):
    """The paper's, in plain NumPy."""
    return np.maximum(x @ W1 + b1, 0) @ W2 + b2


def silu(h):
    return h / (1 + np.exp(-np.abs(h))) * np.where(h < 0, np.exp(-np.abs(h)), 1)


def swiglu(x, W1, b1, W2, b2, V, c):
    """Shazeer's, in plain NumPy."""
    return (silu(x @ W1 + b1) * (x @ V + c)) @ W2 + b2


def numpy_only(fn, **options):
    """A check in NumPy's two wide dtypes."""
    return check(fn, backends="numpy", dtypes=("float64", "float32"), **options)


def in_place(x, W1, b1, W2, b2):
    x += 0.0 * x
    b1 += 1.0
    return np.maximum(x @ W1 + b1 - 1.0, 0) @ W2 + b2


def one_axis_lost(x, W1, b1, W2, b2):
    return network(x.reshape(-1, x.shape[-1]), W1, b1, W2, b2)


def row(status="pass", worst=0.25, **changes):
    given = {
        "backend": "numpy",
        "device": "cpu",
        "dtype": "float64",
        "activation": "relu",
        "gated": False,
        "bias": True,
        "case": "curve",
        "status": status,
        "worst": worst,
    }
    return Row(**{**given, **changes})
