"""Dask: in chunks of tokens and of d_ff, on a cluster of two processes, in little memory, and lazy until asked."""

import json

import numpy as np
import pytest

from portable_ffn import Weights, feed_forward, init_weights, oracle
from portable_ffn.testing import assert_agrees
from tests.engines.scale import dask_worker
from tests.engines.scale.launch import dask_cluster


@pytest.fixture
def da(require):
    require("dask")
    return pytest.importorskip("dask.array")


@pytest.fixture
def lazy(da):
    """A scheduler that fails as soon as anything is computed."""
    import dask

    def refuse(*_, **__):
        raise AssertionError("something was computed before it was asked for")

    with dask.config.set(scheduler=refuse):
        yield da


def tasks(array):
    """How many tasks a graph has, as it is and as Dask runs it."""
    import dask

    (run,) = dask.optimize(array)
    return np.array([len(dict(array.__dask_graph__())), len(dict(run.__dask_graph__()))])


# The cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    pytest.importorskip("distributed", reason="a cluster needs distributed")

    out = dask_cluster(tmp_path_factory)
    return json.loads(out.with_suffix(".json").read_text()), np.load(out.with_suffix(".npz"))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["plain", "gated"])
@pytest.mark.parametrize("layout", dask_worker.CHUNKS)
def test_every_layout_on_a_cluster(da, cluster, layout, form):
    x, w = dask_worker.network(form == "gated")
    assert_agrees(cluster[1][f"{layout}-{form}"], x, *oracle.feed_forward(x, *w, activation="silu"))


@pytest.mark.slow
def test_unknown_chunk_sizes_on_a_cluster(da, cluster):
    x, w = dask_worker.network(True)
    rows = x.reshape(-1, x.shape[-1])
    rows = rows[rows[:, 0] > 0]
    assert_agrees(cluster[1]["unknown"], rows, *oracle.feed_forward(rows, *w, activation="silu"))


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["tokens", "d_ff"])
def test_an_input_larger_than_the_workers(da, cluster, layout):
    facts = cluster[0]
    large = facts["large"][layout]
    assert facts["workers"] == 2
    assert large["bytes"] > 2 * dask_worker.LIMIT
    assert large["peak"] < dask_worker.LIMIT
    assert not facts["restarts"]
    # What a worker holds at once of its chunks of x and of the hidden layer.
    assert large["grown"] < 8 * (large["chunk_bytes"] + large["hidden_chunk_bytes"])
    x = np.arange(dask_worker.CHUNK, dtype="float32")[:, None] * dask_worker.large_row()
    w = init_weights(dask_worker.WIDTH, dask_worker.HIDDEN, seed=1).to(dtype="float32")
    y, bound = oracle.feed_forward(x, *w)
    assert_agrees(np.array(large["mean"]), np.empty(0), y.mean(axis=0), bound.mean(axis=0))


@pytest.mark.slow
def test_what_travels_is_bounded(da, cluster):
    """Every partial product of every layout once, x and the weights once to each worker, and the results."""
    most = 0
    for form in (False, True):
        x, w = dask_worker.network(form)
        for _, chunk in dask_worker.CHUNKS.values():
            partial = -(-dask_worker.D_FF // chunk)
            branches = 2 if form else 1
            hidden = branches * x.nbytes // x.shape[-1] * dask_worker.D_FF
            most += 2 * (x.nbytes * (partial + 2) + hidden + sum(a.nbytes for a in w if a is not None))
    assert 0 < cluster[0]["sent"] < most


# The graph


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("gated", [False, True], ids=["plain", "gated"])
@pytest.mark.parametrize("parts", [1, 4])
def test_the_graph_grows_with_chunks_only(lazy, activation, gated, parts):
    w = dask_worker.chunked(init_weights(16, 64, gated=gated), 64, 64 // parts)

    def graph(rows, chunk, width=16):
        return tasks(feed_forward(lazy.ones((rows, 3, width), chunks=(chunk, 3, width)), *w, activation=activation))

    few, twice, four = graph(40, 10), graph(80, 10), graph(160, 10)
    assert np.array_equal(four - twice, 2 * (twice - few))
    assert np.array_equal(graph(4_000_000, 1_000_000), few)
    # As Dask runs it: of each chunk and part a product, its sum and what follows, then the second product.
    assert four[1] <= 16 * (6 * parts + 4) * (2 if gated else 1)


@pytest.mark.parametrize("chunks", [(2, 5, 16), (4, 1, 16), (1, 1, 16), (4, 5, 16)], ids=str)
def test_leading_axes_are_not_merged(lazy, chunks):
    w = dask_worker.chunked(init_weights(16, 64, gated=True), 64, 32)
    x = lazy.ones((4, 5, 16), chunks=chunks)
    y = feed_forward(x, *w, activation="silu")
    assert y.chunks[:-1] == x.chunks[:-1]
    layers = [name for name in y.__dask_graph__().layers if "rechunk" in name or "reshape" in name]
    assert layers == []


def test_unknown_chunk_sizes_stay_lazy(lazy):
    w = dask_worker.chunked(init_weights(16, 64), 64, 64)
    x = lazy.ones((40, 16), chunks=(10, 16))
    y = feed_forward(x[x[:, 0] > 0], *w)
    assert np.isnan(y.shape[0])
    assert y.shape[1] == 16
    assert y.dtype == np.float64


@pytest.mark.parametrize(
    ("shapes", "told"),
    [
        ({"x": (4, 15)}, r"x must have shape \(\.\.\., d_model\) with d_model = 16 as W1 has, got \(4, 15\)"),
        ({"W2": (16, 64)}, r"W2 must have shape \(d_ff, d_model\) = \(64, 16\), got \(16, 64\); transpose it"),
        ({"b1": (1,)}, r"b1 must have shape \(d_ff,\) = \(64,\)"),
        ({"V": (16, 32)}, r"V must have the shape of W1"),
    ],
)
def test_wrong_shapes_fail_at_the_call(lazy, shapes, told):
    right = {"x": (4, 16), "W1": (16, 64), "b1": (64,), "W2": (64, 16), "b2": (16,)}
    arrays = {name: lazy.ones(shape, chunks=8) for name, shape in (right | shapes).items()}
    with pytest.raises(ValueError, match=told):
        feed_forward(**arrays)


def test_a_weight_that_does_not_fit_an_unknown_x_fails_at_the_call(lazy):
    x = lazy.ones((40, 16), chunks=(10, 16))
    with pytest.raises(ValueError, match="d_model = 8 as W1 has"):
        feed_forward(x[x[:, 0] > 0], lazy.ones((8, 64)), None, lazy.ones((64, 8)), None)


def test_weights_of_numpy_are_named(da):
    with pytest.raises(
        TypeError, match=r"got x of dask and W1 of numpy; move the weights to it by weights\.to\(like=x\)"
    ):
        feed_forward(da.ones((4, 16)), *init_weights(16, 64))
    w = init_weights(16, 64).to(like=da.ones((4, 16)))
    assert isinstance(w, Weights)
    assert feed_forward(da.ones((4, 16)), *w).compute().shape == (4, 16)


def test_zarr_goes_through_dask(da, tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    x, w = dask_worker.network(False)
    zarr.create_array(tmp_path / "x.zarr", shape=x.shape, chunks=(3, 10, 16), dtype=x.dtype)[...] = x
    y = feed_forward(da.from_zarr(str(tmp_path / "x.zarr")), *w.to(like=da.ones(1)), activation="silu")
    y.to_zarr(str(tmp_path / "y.zarr"))
    written = zarr.open_array(tmp_path / "y.zarr", mode="r")
    assert written.chunks == (3, 10, 16)
    assert_agrees(written[:], x, *oracle.feed_forward(x, *w, activation="silu"))


# Cubed, whose promise is bounded memory


@pytest.fixture
def cubed(tmp_path):
    """A maker of Cubed arrays that may take so many bytes each task."""
    cubed = pytest.importorskip("cubed", reason="cubed is not installed")

    def make(allowed):
        spec = cubed.Spec(work_dir=str(tmp_path), allowed_mem=allowed, reserved_mem=0)
        return lambda array, chunks: None if array is None else cubed.from_array(array, chunks=chunks, spec=spec)

    return make


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("gated", [False, True], ids=["plain", "gated"])
def test_cubed_in_chunks_of_tokens_and_d_ff(cubed, activation, gated):
    x, w = dask_worker.network(gated)
    place = cubed("50MB")
    into, out = (16, 32), (32, 16)
    ws = Weights(
        place(w.W1, into), place(w.b1, 32), place(w.W2, out), place(w.b2, 16), place(w.V, into), place(w.c, 32)
    )
    y = feed_forward(place(x, (3, 10, 16)), *ws, activation=activation)
    assert y.chunks == ((3, 3, 3, 3), (10,), (16,))
    assert_agrees(y.compute(), x, *oracle.feed_forward(x, *w, activation=activation))


def test_cubed_refuses_what_its_memory_does_not_hold(cubed):
    place = cubed("20MB")
    x = np.ones((20_000, 64))
    ws = [place(array, array.shape) for array in init_weights(64, 256)[:4]]
    y = feed_forward(place(x, (20_000, 64)), *ws)
    with pytest.raises(ValueError, match=r"exceeds allowed_mem"):
        y.compute()
    assert feed_forward(place(x, (2_000, 64)), *ws).compute().shape == x.shape


def test_cubed_refuses_wrong_shapes_at_the_call(cubed):
    place = cubed("20MB")
    ws = [place(array, array.shape) for array in init_weights(16, 64)[:4]]
    with pytest.raises(ValueError, match=r"d_model = 16 as W1 has, got \(4, 15\)"):
        feed_forward(place(np.ones((4, 15)), (2, 15)), *ws)
