"""`check(fn, experts=True)`: people's own mixtures, right ones and ones with a fault that is told by name."""

from dataclasses import replace

import numpy as np
import pytest

from portable_ffn.experts import Routing, feed_forward_experts
from portable_ffn.testing import check

ROUTING = Routing(2, score="sigmoid", normalise=True, scale=2.5, groups=(3, 2, "top2_sum"))
FACTS = {"activation": "silu", "gated": True, "experts": True, "routing": ROUTING, "selection_bias": True}
HERE = {"backends": "numpy", "dtypes": "float64"}


def ours(routing=ROUTING):
    def block(x, router, experts, shared=None, gate=None):
        return feed_forward_experts(x, router, experts, routing=routing, shared=shared, shared_gate=gate)

    return block


def test_a_right_block_passes_on_every_library():
    report = check(ours(), backends=["numpy", "torch", "array-api-strict"], **FACTS, shared=True, shared_gate=True)
    assert report.passed, str(report)
    assert {row.backend for row in report.rows} == {"numpy", "torch", "array-api-strict"}


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"normalise": False}, "the weights are not divided by their sum"),
        ({"scale": 1.0}, "the scale of the weights is left out"),
        ({"groups": (3, 2, "max")}, "groups are valued by max instead of top2_sum"),
        ({"groups": None}, "the groups are left out"),
        ({"top_k": 1}, "top_k is 1 instead of 2"),
        ({"top_k": 3}, "top_k is 3 instead of 2"),
        ({"apply_to": "input"}, "the weights multiply each expert's input"),
    ],
)
def test_a_fault_of_the_routing_is_told(changes, cause):
    report = check(ours(replace(ROUTING, **changes)), **FACTS, **HERE)
    assert not report.passed
    assert cause in report.rows[0].causes


def test_the_softmax_over_the_chosen_alone():
    facts = FACTS | {"routing": Routing(2), "selection_bias": False}
    report = check(ours(Routing(2, normalise=True)), **facts, **HERE)
    assert "the softmax is taken over the chosen experts alone" in report.rows[0].causes
    assert "the weights are divided by their sum" in report.rows[0].causes


@pytest.mark.parametrize(
    ("block", "cause"),
    [
        (lambda x, router, experts, shared, gate: ours()(x, router, experts), "the shared network is left out"),
        (
            lambda x, router, experts, shared, gate: ours()(x, router, experts, shared),
            "the gate of the shared network is left out",
        ),
        (
            lambda x, router, experts, shared, gate: ours()(
                x, router._replace(selection_bias=None), experts, shared, gate
            ),
            "the selection bias is left out",
        ),
        (
            lambda x, router, experts, shared, gate: ours()(
                x, router, type(experts)(*(a[::-1] for a in experts)), shared, gate
            ),
            "the experts stand in reverse order",
        ),
    ],
)
def test_a_fault_of_the_block_is_told(block, cause):
    report = check(block, **FACTS, **HERE, shared=True, shared_gate=True)
    assert not report.passed
    assert cause in report.rows[0].causes


def test_a_bias_in_the_weights_is_told():
    def block(x, router, experts):
        scores = 1 / (1 + np.exp(-(x @ router.W))) + router.selection_bias
        indices = np.argsort(-scores, axis=-1, kind="stable")[:, :2]
        weights = np.take_along_axis(scores, indices, -1)
        y = np.zeros_like(x)
        for t, token in enumerate(x):
            for w, e in zip(weights[t], indices[t], strict=True):
                g, u = (token @ W[e] + b[e] for W, b in ((experts.W1, experts.b1), (experts.V, experts.c)))
                y[t] += w * ((g / (1 + np.exp(-g)) * u) @ experts.W2[e] + experts.b2[e])
        return y

    report = check(block, **(FACTS | {"routing": Routing(2, score="sigmoid")}), **HERE)
    assert "the selection bias is in the weights" in report.rows[0].causes


def test_what_is_raised_is_told_and_a_routing_is_needed():
    report = check(lambda x, router, experts: x @ experts, **FACTS, **HERE)
    assert report.rows[0].status == "error"
    with pytest.raises(TypeError, match="routing must be given"):
        check(ours(), experts=True, **HERE)
