"""The mixture of experts as a module of PyTorch and of Equinox."""

import numpy as np
import pytest

from portable_ffn.experts import Routing, feed_forward_experts
from tests.experts.mixture import ROUTINGS, computed, mixture

ALL = {"router_bias": True, "selection_bias": True, "shared_d_ff": 10, "shared_gate": True, "bias": True}


def test_of_pytorch():
    torch = pytest.importorskip("torch")
    from portable_ffn.adapters.torch import Experts

    module = Experts(8, 6, 4, routing=ROUTINGS["mixtral"], **ALL)
    state = module.state_dict()
    assert {"router_W", "router_b", "selection_bias", "W1", "shared_W1", "shared_gate"} <= set(state)
    assert "selection_bias" not in dict(module.named_parameters())
    x = torch.randn(3, 5, 8)
    y = module(x)
    expected = feed_forward_experts(
        x, module.router, module.weights, routing=module.routing, shared=module.shared, shared_gate=module.shared_gate
    )
    assert torch.equal(y, expected)
    y.sum().backward()
    assert all(p.grad is not None for p in module.parameters())
    again = Experts(8, 6, 4, routing=ROUTINGS["mixtral"], **ALL)
    again.load_state_dict(state)
    assert torch.equal(again(x), y)
    assert "num_experts=4" in repr(module)


def test_of_pytorch_from_the_weights_of_another_library():
    pytest.importorskip("torch")
    import torch

    from portable_ffn.adapters.torch import Experts

    given = mixture()
    module = Experts.from_weights(
        given.router, given.experts, routing=ROUTINGS["deepseek-v3"], shared=given.shared, shared_gate=given.shared_gate
    )
    y = module(torch.tensor(given.x)).detach()
    np.testing.assert_allclose(y, computed(given, ROUTINGS["deepseek-v3"]), rtol=1e-10)


def test_of_equinox():
    eqx, jax = pytest.importorskip("equinox"), pytest.importorskip("jax")
    from portable_ffn.adapters.equinox import Experts

    module = Experts(8, 6, 4, routing=Routing(2, normalise=True), key=jax.random.key(0), **ALL)
    x = jax.random.normal(jax.random.key(1), (3, 8))
    y = eqx.filter_jit(module)(x)
    assert y.shape == (3, 8)
    gradient = eqx.filter_grad(lambda m: m(x).sum())(module)
    assert (gradient.router.selection_bias == 0).all()
    assert all(bool(jax.numpy.isfinite(g).all()) for g in jax.tree.leaves(gradient))


@pytest.mark.parametrize(
    ("kind", "match", "more"),
    [
        (ValueError, "num_experts must be top_k = 2 or more, got 1", {"num_experts": 1}),
        (TypeError, "routing must be a Routing", {"routing": 2}),
        (ValueError, "shared_gate must come with shared_d_ff", {"shared_gate": True}),
    ],
)
def test_settings_that_cant_be(kind, match, more):
    pytest.importorskip("torch")
    from portable_ffn.adapters.torch import Experts

    given = {"d_model": 4, "d_ff": 4, "num_experts": 4, "routing": Routing(2)} | more
    with pytest.raises(kind, match=match):
        Experts(**given)
