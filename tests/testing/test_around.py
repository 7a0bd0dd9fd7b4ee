"""What stands around a network, and the bound of an error that is carried through a norm."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from portable_ffn.checkpoint._loaded.network import Norm
from portable_ffn.testing._measure.bound import _through, bounded
from portable_ffn.testing._models.against_network import against_network
from portable_ffn.testing._models.layer import Layer
from tests.testing.models import D_FF, D_MODEL, NORM, PLAIN, X

AROUND = {
    "before": (replace(PLAIN, before=NORM), "the layer normalisation before W1 only in B"),
    "after": (replace(PLAIN, after=replace(NORM, kind="rms")), "the rms normalisation after W2 only in B"),
    "residual": (replace(PLAIN, residual=True), "the residual is added only in B"),
    "scale": (replace(PLAIN, scale=0.5), "the output is scaled by 1 in A and 0.5 in B"),
}


def against(a, b):
    record = Layer("a", "b", "main", 0, None, "", "error", math.nan, math.nan)
    return against_network(record, a, b, X, "float32", lambda weights: True)


@pytest.mark.parametrize("place", AROUND)
def test_what_stands_around_differs(place):
    other, says = AROUND[place]
    assert against(other, other).status == "pass"
    found = against(PLAIN, other)
    assert found.status == "fail"
    assert says in found.cause
    assert not found.unequal


def test_norms_that_differ():
    a = replace(PLAIN, before=NORM)
    found = against(a, replace(a, before=replace(NORM, eps=1e-2)))
    assert found.cause == "the normalisation before W1 has eps 1e-05 in A and 0.01 in B"
    found = against(a, replace(a, before=replace(NORM, gamma=1.001 * NORM.gamma)))
    assert "gamma of the normalisation before W1 differs by up to 0.0015" in found.cause


KINDS = ("layer", "rms", "rms1p", "rms_of_scaled", "l2", "affine")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["before", "middle", "after"])
def test_the_bound_of_a_norm_holds_what_float32_does(kind, place):
    """Rounding of a sound network is within it, a W1 that is a hundredth off is not."""
    width = D_FF if place == "middle" else D_MODEL
    norm = Norm(kind, np.linspace(0.5, 1.5, width), np.linspace(-1, 1, width) if kind == "layer" else None, 1e-6)
    network = replace(PLAIN, **{place: norm, "residual": place == "after"})
    x = X.astype(np.float32).astype(np.float64)
    narrow = network.to(dtype="float32")
    exact = narrow.to(dtype="float64")
    y, bound = bounded(exact, x, "float32")
    np.testing.assert_allclose(y, exact(x), rtol=1e-12, atol=1e-12)
    error = np.abs(narrow(x.astype(np.float32)).astype(np.float64) - y) / bound
    assert 1e-4 < error.max() < 1.0
    off = replace(exact, weights=exact.weights._replace(W1=exact.weights.W1 + np.eye(D_MODEL, D_FF) / 100))
    assert np.max(np.abs(off(x) - y) / bound) > 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_carried_through_a_norm(kind):
    """No signs of small errors move an output further, and some move outputs a third as far on the whole."""
    random = np.random.default_rng(0)
    norm = Norm(kind, random.uniform(0.5, 1.5, 4), random.uniform(-1, 1, 4) if kind == "layer" else None, 1e-6)
    y = random.standard_normal((200, 4))
    error = 1e-6 * random.uniform(0.5, 1.5, y.shape)
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=4)))
    moved = np.max([np.abs(norm(y + sign * error) - norm(y)) for sign in signs], axis=0)
    carried = _through(norm, y, error, 0.0)
    assert np.all(moved <= carried * (1 + 1e-4))
    assert carried.sum() <= 3 * moved.sum()
