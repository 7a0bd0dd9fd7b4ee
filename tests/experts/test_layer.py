"""The mixture of experts on every library, against the oracle."""

import numpy as np
import pytest

from portable_ffn import oracle
from portable_ffn.experts import Routing, feed_forward_experts, route
from portable_ffn.testing import BACKENDS, assert_agrees
from tests.conftest import demand
from tests.experts.mixture import ROUTINGS, computed, mixture, put

FAST = [name for name, row in BACKENDS.items() if not row.slow and not row.valueless and ":" not in name] + [
    "numpy:readonly", "numpy:generic", "torch:generic", "jax:jit",
]  # fmt: skip


def run(name, given, routing, activation="silu", dtypes=None):
    """The mixture on a backend, agreeing with the oracle within its bound; returns the array."""
    row = demand(name)
    with row.inside():
        arrays = put(given, row, dtypes)
        wrapped = row.wrap(lambda *flat: computed(arrays.filled(flat), routing, activation))
        y = wrapped(*arrays.flat())
        served = "float32" if name == "jax:x64-off" and arrays.x.dtype.name == "float32" else None
        expected = oracle.feed_forward_experts(
            given.x, given.router, given.experts, routing=routing, activation=activation, shared=given.shared,
            shared_gate=given.shared_gate, dtype=served,
        )  # fmt: skip
        assert_agrees(y, arrays.x, *expected)
    return y


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("name", FAST)
def test_every_routing_on_every_library(name, routing):
    run(name, mixture(shape=(2, 3)), ROUTINGS[routing])


@pytest.mark.parametrize("name", [name for name in FAST if name != "jax:jit"])
def test_low_and_mixed_dtypes(name):
    for dtype, router in (("float32", "float32"), ("bfloat16", "float32"), ("float16", "float16")):
        if {dtype, router} <= set(BACKENDS[name].dtypes):
            y = run(name, mixture(1, dtype=dtype, router_dtype=router), ROUTINGS["mixtral"])
            assert dtype in str(y.dtype)


@pytest.mark.parametrize("name", ["jax:generic", "jax:x64-off"])
def test_other_ways_of_jax(name):
    run(name, mixture(shape=(3,)), ROUTINGS["deepseek-v3"])


@pytest.mark.parametrize("name", [name for name in FAST if name != "jax:jit"])
def test_plain_networks_projections_and_no_tokens(name):
    plain = mixture(2, gated=False, bias=False, shared=False, selection_bias=False, d_out=3)
    run(name, plain, ROUTINGS["olmoe"], "relu")
    empty = mixture(3, shape=(2, 0))
    y = run(name, empty, ROUTINGS["deepseek-v3"])
    assert tuple(y.shape) == (2, 0, 5)
    run(name, mixture(4, shape=()), ROUTINGS["deepseek-v3"])


@pytest.mark.slow
def test_under_torch_compile():
    run("torch:compile", mixture(E=4, bias=False, shared=False), ROUTINGS["lfm2"])


def test_on_arrays_without_values():
    row = demand("torch:meta")
    arrays = mixture().map(lambda a: row.put(a, a.dtype.name, "meta"))
    assert computed(arrays, ROUTINGS["deepseek-v3"]).shape == arrays.x.shape


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("name", ["numpy", "torch", "jax", "array-api-strict", "dask", "ndonnx", "mlx"])
def test_route(name, routing):
    row, given = demand(name), mixture(5, shape=(3, 4))
    with row.inside():
        arrays = put(given, row)
        weights, indices = route(arrays.x, arrays.router, ROUTINGS[routing])
        expected = oracle.route(given.x, given.router, ROUTINGS[routing])
        assert_agrees(weights, arrays.x, expected.weights, expected.bound)
        found = row.take(indices).astype(int)
    assert found.shape == expected.indices.shape
    # Where no rounding can change the choice, it is the oracle's, in its order.
    assert (found == expected.indices).all(axis=-1)[~expected.tied].all()
    assert (~expected.tied).any()


@pytest.mark.parametrize("name", ["numpy", "torch", "jax", "array-api-strict", "dask", "ndonnx", "mlx"])
def test_ties_go_to_the_lower_index(name):
    row = demand(name)
    given = mixture(6, E=8, bias=False, selection_bias=False)
    # Experts that come in pairs of the same column, and scores that are all 0 but one.
    given = given._replace(router=given.router._replace(W=np.repeat(given.router.W[:, ::2], 2, axis=1)))
    zero = given._replace(router=given.router._replace(W=0 * given.router.W))
    with row.inside():
        for one, routing in ((given, Routing(2)), (zero, Routing(3)), (zero, Routing(3, groups=(4, 2, "max")))):
            arrays = put(one, row)
            indices = row.take(route(arrays.x, arrays.router, routing)[1])
            if one is zero:
                assert (indices == np.arange(3)).all()
            else:
                assert (indices[..., 0] + 1 == indices[..., 1]).all()


@pytest.mark.parametrize("name", FAST)
def test_nan_in_a_token_stays_in_it_and_unchosen_experts_dont_show(name):
    row = demand(name)
    clean = mixture(7, shape=(6,), E=4, shared=False, selection_bias=False)
    b = np.array([0.0, 0.0, 0.0, -1e4])
    clean = clean._replace(router=clean.router._replace(b=b))
    x = clean.x.copy()
    x[2] = np.nan
    dirty = clean._replace(
        x=x, experts=clean.experts._replace(**{f: getattr(clean.experts, f).copy() for f in clean.experts._fields})
    )
    for array in dirty.experts:
        array[3] = np.nan
    with row.inside():
        good, bad = (
            row.take(row.wrap(lambda *flat: computed(clean.filled(flat), Routing(2)))(*put(one, row).flat()))
            for one in (clean, dirty)
        )
    assert np.isnan(bad[2]).all()
    rest = [0, 1, 3, 4, 5]
    assert np.isfinite(bad[rest]).all()
    np.testing.assert_allclose(bad[rest], good[rest], rtol=1e-5 if "x64" in name else 1e-12)


@pytest.mark.parametrize("name", ["numpy", "torch", "jax", "array-api-strict", "dask", "mlx"])
@pytest.mark.parametrize("score", ["softmax", "sigmoid", "sqrt_softplus", "softmax_of_chosen"])
def test_large_logits_give_no_nan(name, score):
    row, given = demand(name), mixture(8, scale=1e4, selection_bias=False, shared=False)
    with row.inside():
        arrays = put(given, row)
        for normalise in (False, True):
            weights, _ = route(arrays.x, arrays.router, Routing(3, score=score, normalise=normalise))
            assert np.isfinite(row.take(weights)).all()


def test_where_the_chosen_scores_sum_to_zero_the_weights_are_zero():
    given = mixture(9, bias=False, selection_bias=False, shared=False)
    given = given._replace(x=np.abs(given.x), router=given.router._replace(W=-1e6 * np.abs(given.router.W)))
    routing = Routing(2, score="sigmoid", normalise=True)
    assert (route(given.x, given.router, routing)[0] == 0).all()
    assert (computed(given, routing) == 0).all()


def test_a_float32_router_does_not_widen_the_result():
    given = mixture(10, dtype="float16", router_dtype="float32")
    assert computed(given, ROUTINGS["mixtral"]).dtype == np.float16
    assert route(given.x, given.router, ROUTINGS["mixtral"])[0].dtype == np.float32
    assert feed_forward_experts(
        np.ones((2, 5), np.int64), given.router, given.experts, routing=Routing(1)
    ).dtype == np.float16  # fmt: skip


def test_dask_chunks_stay_and_nothing_is_computed():
    dask = pytest.importorskip("dask.array")
    given = mixture(11, shape=(12,))
    with BACKENDS["dask"].inside():
        arrays = given.map(lambda a: dask.from_array(a, chunks=-1))
        x = dask.from_array(given.x, chunks=((4, 0, 3, 5), -1))
        y = computed(arrays._replace(x=x), ROUTINGS["deepseek-v3"])
        assert y.chunks[0] == (4, 0, 3, 5)
        np.testing.assert_allclose(y.compute(scheduler="synchronous"), computed(given, ROUTINGS["deepseek-v3"]))


def test_autocast_narrows_the_experts_and_not_the_choice():
    torch = pytest.importorskip("torch")
    given = mixture(12, dtype="float32", shape=(64,), selection_bias=False)
    arrays = put(given, BACKENDS["torch"])
    exact = route(arrays.x, arrays.router, ROUTINGS["mixtral"])[1]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(route(arrays.x, arrays.router, ROUTINGS["mixtral"])[1], exact)
        assert computed(arrays, ROUTINGS["mixtral"]).dtype == torch.bfloat16
