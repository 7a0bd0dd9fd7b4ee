"""PyTorch's DTensor and FSDP2: one all-reduce each way, biases added once, weights never gathered by the network."""

import json
from pathlib import Path

import numpy as np
import pytest

from portable_ffn import oracle
from portable_ffn.testing import assert_agrees
from tests.engines.scale import torch_worker
from tests.engines.scale.launch import torch_forked, torch_in_two_processes

pytestmark = pytest.mark.slow
FORMS = [f"{a}-{g}-{b}" for a in torch_worker.ACTIVATIONS for g in ("plain", "gated") for b in ("bias", "none")]
NOTHING = {"calls": 0, "bytes": 0}


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    out = torch_in_two_processes(tmp_path_factory)
    return json.loads(out.with_suffix(".json").read_text()), np.load(out.with_suffix(".npz"))


@pytest.fixture(scope="module")
def forked(tmp_path_factory):
    return json.loads(torch_forked(tmp_path_factory).with_suffix(".json").read_text())


@pytest.fixture
def demanded(require):
    require("torch")


def one_all_reduce(fact, sums=1):
    """Nothing in the network itself; one sum over all ranks brings y together, and one x's gradient."""
    payload = np.prod(torch_worker.SHAPE) * 8
    both = NOTHING if not sums else {"calls": 1, "all_reduce": 1, "bytes": payload}
    assert fact["forward"] == fact["backward"] == NOTHING
    assert fact["sum"] == fact["sum of dx"] == both
    assert fact["y"] == fact["dx"] == ["Partial"]


def values_agree(values, name, x, w, activation):
    """y, and every gradient of its sum."""
    assert_agrees(values[f"{name}-y"], x, *oracle.feed_forward(x, *w, activation=activation))
    gradients, bounds = oracle.vjp(x, *w, dy=np.ones_like(x), activation=activation)
    for symbol, gradient, bound in zip(("x", *w._fields), gradients, bounds, strict=True):
        if gradient is not None and f"{name}-d{symbol}" in values:
            assert_agrees(values[f"{name}-d{symbol}"], x, gradient, bound)


@pytest.mark.parametrize("name", FORMS)
def test_column_wise_then_row_wise(demanded, two_processes, name):
    facts, values = two_processes
    activation, gated, bias = name.split("-")
    one_all_reduce(facts[name])
    x, w = torch_worker.network(gated == "gated", bias == "bias")
    assert sum(f"{name}-d{symbol}" in values for symbol in w._fields) == sum(a is not None for a in w)
    values_agree(values, name, x, w, activation)


@pytest.mark.parametrize("d_ff", [63, 3, 1])
def test_a_width_that_the_mesh_does_not_divide(demanded, two_processes, d_ff):
    """Shards of unequal size, the last one empty where there are fewer columns than ranks: right all the same."""
    facts, values = two_processes
    x, w = torch_worker.network(d_ff=d_ff)
    values_agree(values, f"uneven-{d_ff}", x, w, "silu")
    if d_ff > 1:
        one_all_reduce(facts[f"uneven-{d_ff}"])


def test_a_fused_matrix_is_split_before_it_is_sharded(demanded, two_processes):
    facts, values = two_processes
    x, w = torch_worker.network(bias=False)
    assert facts["recipes"]["fused"] == 0
    assert facts["recipes"]["fused, split after"] > 0
    assert_agrees(values["fused"], x, *oracle.feed_forward(x, *w, activation="silu"))


def test_the_module_sharded_as_a_whole(demanded, two_processes):
    facts, values = two_processes
    x, w = torch_worker.network()
    assert facts["recipes"]["module"] == 0
    assert_agrees(values["module"], x, *oracle.feed_forward(x, *w, activation="silu"))


def test_a_tensor_that_was_not_distributed_is_refused(demanded, two_processes):
    assert "got mixed torch.Tensor and DTensor" in two_processes[0]["recipes"]["mixed"]


def test_fully_sharded(demanded, two_processes):
    """FSDP2 gathers the parameters once and scatters the gradients once; each rank keeps its share of them."""
    facts, values = two_processes
    x, w = torch_worker.network()
    assert facts["fsdp"]["forward"] == {"_allgather_base_": 1}
    assert facts["fsdp"]["backward"] == {"_reduce_scatter_base_": 1}
    assert facts["fsdp"]["held"] == sum(a.nbytes for a in w) // 2
    # Gradients are averaged over the two ranks.
    gradients, bounds = oracle.vjp(x, *w, dy=np.full_like(x, 0.5), activation="silu")
    assert_agrees(values["fsdp-y"], x, *oracle.feed_forward(x, *w, activation="silu"))
    for symbol, gradient, bound in zip(("x", *w._fields), gradients, bounds, strict=True):
        if symbol != "x":
            assert_agrees(values[f"fsdp-d{symbol}"], x, gradient, bound)


@pytest.mark.parametrize("form", ["plain", "gated"])
@pytest.mark.parametrize("world", [1, 2, 4, 8])
def test_the_same_count_for_any_number_of_processes(demanded, forked, world, form):
    one_all_reduce(forked[str(world)][form], sums=world > 1)


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="bytes are counted by Linux's /proc")
@pytest.mark.parametrize("world", [1, 2, 4, 8])
def test_what_goes_over_the_wire(demanded, forked, world):
    """A ring sends 2 (n - 1) / n of what it sums: counted at the sockets of one process, heads of messages and all."""
    token = torch_worker.D_MODEL * 8
    assert forked[str(world)]["sent"] == pytest.approx(2 * (world - 1) / world * token, rel=0.01)
