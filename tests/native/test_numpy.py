"""NumPy's row: memory of any kind, its warnings, and how much memory a long batch takes."""

import tracemalloc

import numpy as np
import pytest

from portable_ffn import feed_forward
from portable_ffn._native.blocks import HIDDEN_BYTES
from tests.native.networks import D_FF, D_MODEL, network


def test_products_of_subclasses_and_users_functions_go_the_generic_way():
    class Marked(np.ndarray):
        pass

    arrays = network("float64", gated=False, rows=3)
    plain = feed_forward(*arrays)
    marked = feed_forward(arrays[0].view(Marked), *arrays[1:])
    np.testing.assert_allclose(np.asarray(marked), plain, rtol=1e-12)
    shapes = []
    feed_forward(
        np.ones((2, 3, D_MODEL)),
        *arrays[1:],
        activation=lambda h: shapes.append(h.shape) or h,
    )
    assert shapes == [(2, 3, D_FF)]


def spoilt(arrays):
    """The same numbers in memory that is read-only, transposed, strided, reversed, of the other byte order."""
    ways = (
        lambda a: np.ascontiguousarray(a.T).T,
        lambda a: np.repeat(a, 2, axis=0)[::2],
        lambda a: np.ascontiguousarray(np.flip(a))[tuple([slice(None, None, -1)] * a.ndim)],
        lambda a: np.repeat(a, 3, axis=-1)[..., ::3],
        lambda a: a.astype(a.dtype.newbyteorder()),
    )
    for way in ways:
        changed = [None if a is None else way(a) for a in arrays]
        for a in changed:
            if a is not None:
                a.flags.writeable = False
        yield changed


@pytest.mark.parametrize("rows", [1, 3, 1500])
def test_memory_of_any_kind(rows):
    arrays = network("float64", rows=rows)
    expected = feed_forward(*arrays, activation="silu")
    for changed in spoilt(arrays):
        y = feed_forward(*changed, activation="silu")
        np.testing.assert_allclose(y, expected, rtol=1e-11, atol=1e-12)
        assert y.dtype == changed[0].dtype.newbyteorder("=")


@pytest.mark.parametrize("rows", [1, 3, 1500])
def test_numpys_warnings_are_kept_and_its_state_is_left(rows):
    arrays = network("float32", rows=rows)
    arrays[0][0] = 1e38
    arrays[1][:, ::2] = 1e38
    with np.errstate(all="raise"):
        before = np.geterr()
        y = feed_forward(*arrays, activation="silu")
        assert np.geterr() == before
        assert not np.isfinite(y[0]).all()
        with pytest.raises(FloatingPointError):
            np.float32(1e38) * np.float32(1e38)


def test_a_network_in_the_midst_of_another_of_the_same_thread():
    from portable_ffn._native.numpy import workspace

    arrays = network("float32", rows=3)
    expected = feed_forward(*arrays)
    inside = workspace._local.quiet.run(feed_forward, *arrays)
    np.testing.assert_array_equal(inside, expected)


@pytest.mark.parametrize("gated", [False, True])
def test_memory_of_a_long_batch_on_numpy(gated):
    rows, d_model, d_ff = 40_000, 8, 512
    x = np.zeros((rows, d_model))
    W, U = np.zeros((d_model, d_ff)), np.zeros((d_ff, d_model))
    feed_forward(x[:2000], W, None, U, None, *([W] if gated else []), activation="gelu")
    tracemalloc.start()
    y = feed_forward(x, W, None, U, None, *([W] if gated else []), activation="gelu")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < y.nbytes + HIDDEN_BYTES + 4 * 2**20 < rows * d_ff * 8


def test_bfloat16_by_its_bits():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    from portable_ffn._native.numpy.workspace import widen

    every = np.arange(2**16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(widen(every, np.dtype("float32")), every.astype("float32"))
    np.testing.assert_array_equal(widen(every[::3], np.dtype("float32")), every[::3].astype("float32"))
