"""Gradients of the mixture: the written-out one, autograd and jax.grad, against finite differences in float64."""

import itertools

import numpy as np
import pytest

from portable_ffn import Weights
from portable_ffn._native.table import without_native
from portable_ffn.experts import Router, Routing, feed_forward_experts_vjp
from portable_ffn.testing import BACKENDS
from tests.experts.mixture import GROUPS, ROUTINGS, Given, computed, mixture, put


def vjp(given, routing, activation="silu"):
    return feed_forward_experts_vjp(
        given.x, given.router, given.experts, routing=routing, activation=activation, shared=given.shared,
        shared_gate=given.shared_gate,
    )  # fmt: skip


def slope(given, routing, direction, dy, step=1e-6, activation="silu"):
    """The derivative of sum(y dy) along a direction, by central differences."""

    def at(t):
        moved = [a + t * d for a, d in zip(given.flat(), direction, strict=True)]
        return float((computed(given.filled(moved), routing, activation) * dy).sum())

    return (at(step) - at(-step)) / (2 * step)


@pytest.mark.parametrize("score", ["softmax", "sigmoid", "sqrt_softplus", "softmax_of_chosen"])
def test_against_finite_differences(score):
    given, rng = mixture(shape=(2, 3)), np.random.default_rng(1)
    for normalise, epsilon, groups, side in itertools.product(
        (False, True), (0.0, 1e-2), (None, GROUPS), ("output", "input")
    ):
        routing = Routing(2, score=score, normalise=normalise, epsilon=epsilon, scale=1.7, groups=groups, apply_to=side)
        y, pullback = vjp(given, routing)
        dy = rng.normal(size=y.shape)
        gradients = Given(*pullback(dy)).flat()
        direction = [rng.normal(size=a.shape) for a in given.flat()]
        direction[3][:] = 0  # the choice is fixed
        expected = slope(given, routing, direction, dy)
        found = sum(float((g * d).sum()) for g, d in zip(gradients, direction, strict=True))
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-8), routing


@pytest.mark.parametrize("name", ["torch", "array-api-strict", "dask", "mlx"])
def test_on_every_library(name):
    row, given = BACKENDS[name], mixture(2, shape=(4,), E=3)
    routing = Routing(2, score="sigmoid", normalise=True)
    y, pullback = vjp(given, routing)
    dy = np.random.default_rng(3).normal(size=y.shape)
    with row.inside():
        theirs = vjp(put(given, row), routing)[1](row.put(dy))
        for got, expected in zip(Given(*theirs).flat(), Given(*pullback(dy)).flat(), strict=True):
            np.testing.assert_allclose(row.take(got), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("routing", ["deepseek-v3", "llama4", "gpt-oss"])
def test_autograd_of_pytorch(routing, native):
    torch = pytest.importorskip("torch")
    given = mixture(4, E=6, shape=(3, 4))
    y, pullback = vjp(given, ROUTINGS[routing])
    dy = np.random.default_rng(5).normal(size=y.shape)
    leaves = given.map(lambda a: torch.tensor(a, requires_grad=True))
    if native:
        out = computed(leaves, ROUTINGS[routing])
    else:
        with without_native():
            out = computed(leaves, ROUTINGS[routing])
    found = torch.autograd.grad(out, leaves.flat(), torch.tensor(dy), allow_unused=True)
    for got, expected in zip(found, Given(*pullback(dy)).flat(), strict=True):
        np.testing.assert_allclose(0 if got is None else got.numpy(), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("routing", ["deepseek-v3", "llama4"])
def test_gradient_of_jax(routing):
    jax = pytest.importorskip("jax")
    given = mixture(6, E=6, shape=(3, 4))
    y, pullback = vjp(given, ROUTINGS[routing])
    dy = np.random.default_rng(7).normal(size=y.shape)
    arrays = given.map(jax.numpy.asarray)
    found = jax.jit(jax.grad(lambda g: (computed(g, ROUTINGS[routing]) * dy).sum()))(arrays)
    for got, expected in zip(Given(*found).flat(), Given(*pullback(dy)).flat(), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10)


def test_jax_maps_over_mixtures():
    jax = pytest.importorskip("jax")
    given = mixture(8, E=4, shape=(2, 3), shared=False)
    arrays = given.map(jax.numpy.asarray)
    mapped = jax.jit(jax.vmap(lambda x: computed(arrays._replace(x=x), ROUTINGS["mixtral"])))(arrays.x)
    np.testing.assert_allclose(mapped, computed(given, ROUTINGS["mixtral"]), rtol=1e-10)


def test_pytorch_maps_and_transforms():
    torch = pytest.importorskip("torch")
    given = mixture(9, E=4, shape=(2, 3), shared=False)
    arrays = given.map(torch.tensor)
    mapped = torch.func.vmap(lambda x: computed(arrays._replace(x=x), ROUTINGS["mixtral"]))(arrays.x)
    np.testing.assert_allclose(mapped, computed(given, ROUTINGS["mixtral"]), rtol=1e-10)
    dx = torch.func.grad(lambda x: computed(arrays._replace(x=x), ROUTINGS["mixtral"]).sum())(arrays.x)
    _, pullback = vjp(given, ROUTINGS["mixtral"])
    np.testing.assert_allclose(dx, pullback(np.ones((2, 3, 5))).x, rtol=1e-9)


@pytest.mark.parametrize("score", ["softmax", "sigmoid", "sqrt_softplus", "softmax_of_chosen"])
def test_large_logits_have_finite_gradients(score):
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    given = mixture(10, E=6, shape=(16,), dtype="float32", shared=False, gated=False, bias=False)
    # Logits of every size from 1 to 1e4 in one batch.
    given = given._replace(x=given.x * np.logspace(0, 4, 16, dtype="float32")[:, None])
    for epsilon in (0.0, 1e-20):
        routing = Routing(3, score=score, normalise=True, epsilon=epsilon)
        leaves = given.map(lambda a: torch.tensor(a, requires_grad=True))
        found = torch.autograd.grad(computed(leaves, routing).sum(), leaves.flat(), allow_unused=True)
        assert all(bool(g.isfinite().all()) for g in found if g is not None)
        arrays = given.map(jax.numpy.asarray)
        found = jax.jit(jax.grad(lambda g, routing=routing: computed(g, routing).sum()))(arrays)
        assert all(np.isfinite(g).all() for g in Given(*found).flat())
        y, pullback = vjp(given, routing)
        assert all(np.isfinite(g).all() for g in Given(*pullback(np.ones_like(y))).flat())


@pytest.mark.parametrize("native", [True, False])
def test_an_expert_without_tokens_has_a_zero_gradient(native):
    given = mixture(11, E=4, shape=(6,), shared=False, selection_bias=False)
    given = given._replace(router=given.router._replace(b=np.array([0.0, 0.0, 0.0, -1e4])))
    for array in given.experts:
        array[3] = np.nan
    y, pullback = vjp(given, Routing(2))
    found = pullback(np.ones_like(y))
    assert isinstance(found.router, Router)
    assert isinstance(found.experts, Weights)
    assert all((g[3] == 0).all() and np.isfinite(g).all() for g in found.experts)
    assert np.isfinite(found.x).all()
    torch = pytest.importorskip("torch")
    leaves = given.map(lambda a: torch.tensor(a, requires_grad=True))
    computed(leaves, Routing(2)).sum().backward()
    assert all(bool((a.grad[3] == 0).all()) for a in leaves.experts)
    assert bool(leaves.x.grad.isfinite().all())
