"""Every native row: what blocks, tiles and memory used in place could break, and what it must leave alone."""

import math
import threading

import numpy as np
import pytest

from portable_ffn import ACTIVATIONS, ClippedGate, feed_forward, oracle
from portable_ffn._native.table import without_native
from tests.native.networks import D_MODEL, ENDS, FLOATS, ROWS, network, put, read

LIBRARIES = ("numpy", "torch", "jax")
GATE = ClippedGate(2.0, 1.702, 1.0)
LATE = ClippedGate(1.0, clip="after")


def agrees(y, arrays, activation, rows=slice(None)):
    """Every given row of y is within the oracle's bound."""
    expected, bound = oracle.feed_forward(arrays[0][rows], *arrays[1:], activation=activation)
    error = np.abs(read(y)[rows].astype("float64") - expected)
    wrong = ~(error <= bound)
    return not wrong.any() or f"{wrong.sum()} outside the bound, the first at {np.argwhere(wrong)[0]}"


# On JAX each name is compiled: here those that it has formulas of its own for; the matrix has them all.
OWN = ("relu", "gelu", "gelu_tanh", "quick_gelu", "silu")
NAMED = [(library, name) for library in LIBRARIES for name in (OWN if library == "jax" else ACTIVATIONS)]
GATES = [(library, gate) for library in LIBRARIES for gate in (GATE, LATE)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("library", "activation"), [*NAMED, *GATES], ids=str)
def test_values_in_blocks(library, dtype, activation):
    arrays = network(dtype)
    y = feed_forward(*(put(library, a) for a in arrays), activation=activation)
    some = np.r_[0:20, ROWS // 2 - 10 : ROWS // 2 + 10, ROWS - 20 : ROWS]
    assert agrees(y, arrays, activation, some) is True


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_row_of_a_long_batch_is_that_of_a_short_one(library, gated):
    arrays = network("float64", gated)
    given = [None if a is None else put(library, a) for a in arrays]
    whole = read(feed_forward(*given, activation="gelu"))
    for start in range(0, ROWS, 97):
        part = read(feed_forward(given[0][start : start + 97], *given[1:], activation="gelu"))
        np.testing.assert_allclose(whole[start : start + 97], part, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu", "mish", GATE], ids=str)
@pytest.mark.parametrize("library", LIBRARIES)
def test_what_is_not_finite_stays_in_its_row(library, activation, value):
    arrays = network("float32")
    clean = read(feed_forward(*(put(library, a) for a in arrays), activation=activation))
    arrays[0][[7, 1500], 2] = value
    y = read(feed_forward(*(put(library, a) for a in arrays), activation=activation))
    others = np.delete(np.arange(ROWS), [7, 1500])
    np.testing.assert_allclose(y[others], clean[others], rtol=1e-4, atol=1e-4)
    assert not np.isfinite(y[[7, 1500]]).any()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("library", "name"), NAMED)
def test_ends_of_the_line(library, name, dtype):
    ends = np.array(ENDS * 3, dtype)[:, None]  # enough for vectorised kernels
    one = put(library, np.ones((1, 1), dtype))
    given = put(library, ends), one, None, one, None
    y = read(feed_forward(*given, activation=name))[:, 0]
    with without_native():
        expected = read(feed_forward(*given, activation=name))[:, 0]
    for h, got, wanted in zip(ends[:, 0], y, expected, strict=True):
        assert (math.isnan(got), math.isinf(got)) == (math.isnan(wanted), math.isinf(wanted)), (
            f"at {h}: {got}, {wanted}"
        )
    finite = np.isfinite(expected)
    np.testing.assert_allclose(y[finite], expected[finite], rtol=2e-6, atol=1e-5 if dtype == "float32" else 1e-13)
    if name in ("silu", "gelu", "gelu_tanh", "quick_gelu", "mish", "hard_swish"):
        assert math.isnan(y[0])
        assert y[len(ENDS) - 2] == math.inf


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("library", ["numpy", "jax"])
def test_tail_of_the_exact_gelu(library, dtype):
    last = {"float32": 13.0, "float64": 37.0}[dtype]
    h = -np.linspace(0, last, 4001).astype(dtype)[1:]
    one = put(library, np.ones((1, 1), dtype))
    y = read(feed_forward(put(library, h[:, None]), one, None, one, None, activation="gelu"))[:, 0].astype("float64")
    t = [float(v) for v in -h]
    exact = np.array([-v * math.erfc(v / math.sqrt(2)) / 2 for v in t])
    error = np.abs(y / exact - 1)
    # exp(-x**2 / 2) of a rounded argument alone errs by x**2 / 2 of these.
    unit = np.finfo(dtype).eps / 2
    assert (error <= (6 + np.square(h, dtype="float64")) * unit + 2e-16 * np.square(t)).all()
    assert error.max() < 1e-5


@pytest.mark.parametrize("rows", [1, 3, 1500])
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("activation", ["relu", "gelu", "identity", GATE], ids=str)
def test_arguments_are_never_written(library, activation, rows):
    arrays = network("float32", rows=rows)
    given = [put(library, a) for a in arrays]
    before = [read(a).copy() for a in given]
    y = feed_forward(*given, activation=activation)
    for a, b in zip(given, before, strict=True):
        np.testing.assert_array_equal(read(a), b)
    assert not any(np.shares_memory(read(y), read(a)) for a in given)


@pytest.mark.parametrize("shape", [(0, D_MODEL), (2, 0, D_MODEL), (D_MODEL,), (1, D_MODEL), (1, 1, 1, D_MODEL)])
@pytest.mark.parametrize("library", LIBRARIES)
def test_leading_axes(library, shape):
    arrays = network("float64", rows=1)
    x = np.broadcast_to(arrays[0][0], shape)
    y = read(feed_forward(*(put(library, a) for a in (np.array(x), *arrays[1:])), activation="silu"))
    row = feed_forward(*arrays, activation="silu")[0]
    assert y.shape == (*shape[:-1], D_MODEL)
    np.testing.assert_allclose(y, np.broadcast_to(row, y.shape), rtol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
def test_threads(library):
    cases = [[put(library, a) for a in network("float32", rows=700, seed=seed)] for seed in range(4)]
    expected = [read(feed_forward(*case, activation="gelu")) for case in cases]
    wrong = []

    def work(i):
        for _ in range(5):
            y = read(feed_forward(*cases[i], activation="gelu"))
            if not np.allclose(y, expected[i], rtol=1e-5, atol=1e-5):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i % 4,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
