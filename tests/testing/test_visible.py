"""What a check can see is said by computation: a fault in sight is caught, one out of sight is listed as such."""

import json
import pickle
from functools import partial

import numpy as np
import pytest

from portable_ffn import ClippedGate, feed_forward
from portable_ffn.testing import Report, check
from portable_ffn.testing._faults.visible import SURELY, Network, effects, told, visible
from portable_ffn.testing._inputs.cases import CASES as EVERY

DTYPES = ("float64", "float32", "float16", "bfloat16")
CASES = ("curve", "ordinary", "biases alone", "a NaN", "tails", "square")


def ff(*arrays, activation="relu"):
    return feed_forward(*arrays, activation=activation)


def rounded(*arrays):
    """float32 in the products, whatever came."""
    wide = ff(*(np.asarray(array, dtype=np.float32) for array in arrays))
    return wide.astype(arrays[0].dtype)


# Networks with one fault: what they are meant to be, and the name that the fault has in the table.
FAULTS = {
    "gelu_tanh where gelu is meant": (partial(ff, activation="gelu_tanh"), "gelu"),
    "quick_gelu where gelu is meant": (partial(ff, activation="quick_gelu"), "gelu"),
    "silu where gelu is meant": (partial(ff, activation="silu"), "gelu"),
    "everything scaled by 1.01": (lambda *a: (1.01 * ff(*map(wide, a))).astype(a[0].dtype), "relu"),
    "b1 missing": (lambda x, W1, b1, W2, b2: ff(x, W1, None, W2, b2), "relu"),
    "float64 served as float32": (rounded, "relu"),
}


def wide(array):
    return np.asarray(array, dtype=np.float64)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_in_sight_means_caught(fault, dtype):
    network, meant = FAULTS[fault]
    report = check(network, activation=meant, backends="numpy", dtypes=dtype, cases=CASES)
    (one,) = report.visible()
    assert one.dtype == dtype
    if fault not in one.effects:  # nothing narrower than itself is served in its place
        assert fault.startswith("float64 served")
        assert dtype != "float64"
        assert report.passed
    elif fault in one.unseen:
        assert dtype in ("float16", "bfloat16")
        assert f"can't be seen in {dtype}, {meant}: " in str(report)
        assert fault in str(report)
    else:
        assert one.effects[fault] > SURELY
        assert not report.passed


def test_a_tanh_gelu_is_below_the_rounding_of_the_halves():
    """The fact that the README tells: a check in half precision can't tell it, and does not claim so."""
    seen = {}
    for dtype in DTYPES:
        network = Network("gelu", "gelu", False, frozenset({"b1", "b2"}), 8, 32, 0, CASES, (dtype,))
        seen[dtype] = effects(network, dtype)["gelu_tanh where gelu is meant"]
    assert seen["float64"] > 1e9
    assert seen["float32"] > 10.0 * SURELY  # it is not looked for further once it is seen
    assert seen["float16"] < 0.2
    assert seen["bfloat16"] < 0.05


@pytest.mark.parametrize(
    ("activation", "gated"), [("relu", False), ("silu", True), (ClippedGate(1.0, 1.702, 1.0), True)], ids=str
)
def test_every_fault_is_seen_in_the_wide_dtypes(activation, gated):
    names = frozenset({"b1", "b2", *(("V", "c") if gated else ())})
    every = tuple(case.name for case in EVERY)
    network = Network(activation, str(activation), gated, names, 8, 32, 0, every, ("float64", "float32"))
    for one in visible([network]):
        assert one.unseen == ()
        assert len(one.effects) > 40
        assert {"rows permuted", "NaN hidden", "products in TF32", "W1 transposed"} <= set(one.effects)


def test_what_the_cases_do_not_reach_is_said():
    """Without biases that count, nobody sees that one is missing."""
    report = check(feed_forward, backends="numpy", dtypes="float64", cases="curve")
    (one,) = report.visible()
    assert "b1 missing" in one.unseen
    assert "b1 missing" in str(report)
    assert report.passed


def test_in_json_and_in_words():
    report = check(feed_forward, backends="numpy", dtypes=("float32", "bfloat16"), cases=CASES)
    unseen = json.loads(report.to_json())["unseen"]
    assert [(one["activation"], one["dtype"]) for one in unseen] == [("relu", "float32"), ("relu", "bfloat16")]
    assert set(unseen[0]["faults"]) == set(report.visible()[0].wanting)
    assert all(0.0 <= effect <= SURELY for effect in unseen[1]["faults"].values())
    first, line = told(report.networks)
    assert first.startswith("can't be seen in float32, relu: for want of cases: ")
    assert line.startswith("can't be seen in bfloat16, relu: ")
    assert "weights rounded to float16" in line.partition("for want of cases")[0]
    assert "faults of tiles and ends" in line.partition("for want of cases")[2]
    assert line in str(report)


def test_many_networks_on_few_cases_are_told_in_a_line():
    """What most of them hide is hidden by the choice of cases, which a count of faults would not say."""
    reports = [
        check(partial(ff, activation=name), activation=name, backends="numpy", dtypes="bfloat16", cases="curve")
        for name in ("relu", "gelu", "silu", "tanh")
    ]
    rows = tuple(row for one in reports for row in one.rows)
    report = Report(rows, {}, {}, tuple(network for one in reports for network in one.networks))
    assert "can't be seen" not in str(report)
    assert f"\n4 of 4 networks were run on 1 of {len(EVERY)} cases (curve): faults that these don't show" in str(report)
    assert {one["activation"] for one in json.loads(report.to_json())["unseen"]} == {"relu", "gelu", "silu", "tanh"}


def test_a_report_can_be_pickled():
    report = check(feed_forward, backends="numpy", dtypes="float32", cases="curve")
    again = pickle.loads(pickle.dumps(report))
    assert again == report
    assert again.visible() == report.visible()
