"""JAX on meshes of several devices: one all-reduce a call, no weight moved, the result where its rows are.

The devices are host devices, in one process and in two; the programs are what XLA makes for a real mesh.
"""

import json
from functools import partial

import numpy as np
import pytest

from portable_ffn import oracle
from portable_ffn.testing import assert_agrees
from tests.engines.scale import jax_worker
from tests.engines.scale.launch import jax_in_one_process, jax_in_two_processes

pytestmark = pytest.mark.slow
ONE = [f"{n}-{axes}-{form}" for n in (1, 2, 4, 8) for axes in ("Auto", "Explicit") for form in ("plain", "gated")]
TWO = [f"{n}-{axes}-{form}" for n in (4, 8) for axes in ("Auto", "Explicit") for form in ("plain", "gated")]


def read(out):
    """The facts of each mesh by name, those of the variants, and the values."""
    told = json.loads(out.with_suffix(".json").read_text())
    return {fact["name"]: fact for fact in told["meshes"]}, told["variants"], np.load(out.with_suffix(".npz"))


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    return read(jax_in_one_process(tmp_path_factory))


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    return read(jax_in_two_processes(tmp_path_factory))


@pytest.fixture
def demanded(require):
    require("jax")


def check(fact, values):
    """One mesh: its collectives, its bytes, where results lie, and their values."""
    sums = 1 if fact["model"] > 1 else 0
    for way in ("forward", "backward"):
        assert fact[way] == dict.fromkeys(jax_worker.KINDS, 0) | {"all-reduce": sums}
    x, w = jax_worker.network(fact["gated"])
    # One number a feature of each token that a device holds; backward, JAX sums each branch's gradient by itself.
    payload = sums * x.nbytes // fact["data"]
    assert fact["forward_bytes"] == payload
    assert fact["backward_bytes"] == payload * (2 if fact["gated"] else 1)
    assert fact["stays"] == {"eager": True, "jit": True}
    assert fact["shard"] == [x.shape[0] // fact["data"], *x.shape[1:]]
    for how in ("eager", "jit"):
        assert_agrees(values[f"{fact['name']}-{how}"], x, *oracle.feed_forward(x, *w, activation="silu"))
    gradients, bounds = oracle.vjp(x, *w, dy=np.ones_like(x), activation="silu")
    assert_agrees(values[f"{fact['name']}-dx"], x, gradients[0], bounds[0])


@pytest.mark.parametrize("name", ONE)
def test_one_all_reduce_and_no_weight_moves(demanded, one_process, name):
    facts, _, values = one_process
    assert facts[name]["processes"] == 1
    check(facts[name], values)


@pytest.mark.parametrize("name", TWO)
def test_the_same_over_two_processes(demanded, two_processes, name):
    facts, _, values = two_processes
    assert facts[name]["processes"] == 2
    check(facts[name], values)


EXPLICIT = {
    **{f"activation-{name}": (name, ["data", "None", "None"]) for name in jax_worker.ACTIVATIONS},
    "op-by-op": ("gelu", ["data", "None", "None"]),
    "by-position": ("relu", ["None", "data", "None"]),
    "by-feature": ("relu", ["data", "None", "None"]),
    "weights-over-data-too": ("relu", ["data", "None", "None"]),
    "vmap": ("relu", ["data", "None", "None"]),
    "uncommitted": ("relu", ["None", "None", "None"]),
    "shard-map": ("relu", ["data", "None", "None"]),
}


@pytest.mark.parametrize("name", EXPLICIT)
def test_explicit_axes_in_every_layout(demanded, one_process, name):
    _, facts, values = one_process
    activation, spec = EXPLICIT[name]
    x, w = jax_worker.network(True)
    assert facts[name] == spec
    assert_agrees(values[name], x, *oracle.feed_forward(x, *w, activation=activation))


def test_explicit_axes_in_the_other_functions(demanded, one_process):
    _, facts, values = one_process
    x, w = jax_worker.network(True)
    assert facts["hidden"] == ["data", "None", "model"]
    assert_agrees(values["hidden"], x, *oracle.hidden(x, w.W1, w.b1, w.V, w.c))
    assert facts["one-row"] == ["None"]
    assert_agrees(values["one-row"], x[0, 0], *oracle.feed_forward(x[0, 0], *w))
    import portable_ffn as pf

    assert facts["sublayer"] == facts["activation-clipped"] == ["data", "None", "None"]
    clipped = pf.ClippedGate(0.5, 1.702, 1.0)
    assert_agrees(values["activation-clipped"], x, *oracle.feed_forward(x, *w, activation=clipped))
    ones = np.ones(x.shape[-1])
    norm = partial(pf.layer_norm, gamma=ones, beta=ones)
    np.testing.assert_allclose(values["sublayer"], pf.sublayer(x, w, norm), rtol=0, atol=1e-12)
