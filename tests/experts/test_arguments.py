"""What `feed_forward_experts`, `route` and `Routing` refuse, and in which words."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from portable_ffn import ClippedGate, experts
from portable_ffn.experts import Routing, feed_forward_experts, route
from tests.experts.mixture import computed, mixture

GIVEN = mixture()
TWO = Routing(2)


@pytest.mark.parametrize(
    ("kind", "match", "arguments", "named"),
    [
        (ValueError, "top_k must be 1 or more, got 0", (0,), {}),
        (TypeError, "top_k must be an integer", (1.5,), {}),
        (ValueError, "score must be one of softmax, .* got 'relu'", (1,), {"score": "relu"}),
        (ValueError, "apply_to must be one of", (1,), {"apply_to": "both"}),
        (ValueError, "epsilon must be zero or more", (1,), {"epsilon": -1.0}),
        (ValueError, "scale must be finite", (1,), {"scale": float("nan")}),
        (TypeError, "normalise must be True or False", (1,), {"normalise": "yes"}),
        (TypeError, "groups must be", (1,), {"groups": 4}),
        (ValueError, "top_groups must be at most n_groups = 2, got 3", (1,), {"groups": (2, 3, "max")}),
        (ValueError, "the value of groups must be one of max, top2_sum", (1,), {"groups": (2, 1, "mean")}),
    ],
)
def test_a_routing_that_cant_be(kind, match, arguments, named):
    with pytest.raises(kind, match=match):
        Routing(*arguments, **named)


@pytest.mark.parametrize(
    ("match", "routing"),
    [
        ("top_k must be at most the 6 experts, got 7", Routing(7)),
        ("n_groups must divide E = 6, got 4", Routing(1, groups=(4, 1, "max"))),
        ("needs groups of two experts or more", Routing(1, groups=(6, 2, "top2_sum"))),
        (
            r"top_k must be at most top_groups times the size of a group, 1 \* 2, got 3",
            Routing(3, groups=(3, 1, "max")),
        ),
    ],
)
def test_a_routing_for_other_experts(match, routing):
    with pytest.raises(ValueError, match=match):
        computed(GIVEN, routing)
    with pytest.raises(ValueError, match=match):
        route(GIVEN.x, GIVEN.router, routing)


def replaced(part, **arrays):
    return GIVEN._replace(**{part: getattr(GIVEN, part)._replace(**arrays)})


@pytest.mark.parametrize(
    ("match", "given"),
    [
        (r"router.W must have shape \(d_model, E\).*transpose it", replaced("router", W=GIVEN.router.W.T)),
        (r"router.b must have shape \(E,\) = \(6,\), got \(1,\)", replaced("router", b=np.zeros(1))),
        (r"router.selection_bias must have shape", replaced("router", selection_bias=np.zeros((1, 6)))),
        (r"experts.W1 must have shape \(E, d_model, d_ff\), got \(5, 7\)", replaced("experts", W1=np.zeros((5, 7)))),
        (r"experts.W2 .* transpose the last two", replaced("experts", W2=GIVEN.experts.W2.swapaxes(1, 2))),
        (r"experts.b2 must have shape", replaced("experts", b2=np.zeros(5))),
        (r"experts.c must come with experts.V", replaced("experts", V=None)),
        (r"shared: W2 must have shape", replaced("shared", W2=np.zeros((3, 5)))),
        (r"shared.W2 must have as many columns", replaced("shared", W2=np.zeros((7, 4)), b2=None)),
        (r"shared_gate must have shape \(d_model, 1\)", GIVEN._replace(shared_gate=np.zeros(5))),
        (r"shared_gate must come with shared", GIVEN._replace(shared=None)),
        (r"x must have shape", GIVEN._replace(x=np.zeros(()))),
    ],
)
def test_shapes_that_dont_fit(match, given):
    with pytest.raises(ValueError, match=match):
        computed(given, TWO)


@pytest.mark.parametrize(
    ("match", "given"),
    [
        ("router must be a Router", GIVEN._replace(router=GIVEN.router.W)),
        ("experts must be a Weights", GIVEN._replace(experts=list(GIVEN.experts))),
        ("experts.W1 must be an array, got None", replaced("experts", W1=None)),
        ("shared must be a Weights", GIVEN._replace(shared=GIVEN.experts.W1)),
        ("router.W must be an array", replaced("router", W=None)),
        ("x must be an array", GIVEN._replace(x=None)),
        ("router.W must be real floating", replaced("router", W=GIVEN.router.W.astype(complex))),
    ],
)
def test_things_of_the_wrong_kind(match, given):
    with pytest.raises(TypeError, match=match):
        feed_forward_experts(
            given.x, given.router, given.experts, routing=TWO, shared=given.shared, shared_gate=given.shared_gate
        )


def test_a_routing_of_the_wrong_kind_and_a_gate_without_v():
    with pytest.raises(TypeError, match=r"routing must be a Routing\(top_k"):
        computed(GIVEN, 2)
    with pytest.raises(ValueError, match="pass V"):
        computed(mixture(gated=False), TWO, ClippedGate(7.0))


def test_another_library_is_told_by_name():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"x of numpy and experts.W1 of torch"):
        computed(replaced("experts", W1=torch.tensor(GIVEN.experts.W1)), TWO)


def test_routings_are_values():
    routing = Routing(2, score="sigmoid", groups=[3, 2, "max"])
    assert routing == pickle.loads(pickle.dumps(routing))
    assert hash(routing) == hash(Routing(2, score="sigmoid", groups=(3, 2, "max")))
    assert pickle.loads(pickle.dumps(GIVEN.router))._fields == ("W", "b", "selection_bias")


def test_a_gate_and_a_function_of_the_users():
    gate = ClippedGate(7.0, 1.702, 1.0)
    y = computed(GIVEN, TWO, gate)
    assert y.shape == GIVEN.x.shape
    plain = mixture(gated=False)
    np.testing.assert_allclose(computed(plain, TWO, np.tanh), computed(plain, TWO, "tanh"), rtol=1e-12)


def test_the_room_is_light_and_lists_its_face():
    heavy = {"numpy", "torch", "jax", "array_api_compat"}
    program = f"import sys, portable_ffn.experts; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
    assert set(dir(experts)) == set(experts.__all__)
