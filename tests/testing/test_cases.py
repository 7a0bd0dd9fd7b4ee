"""The inputs of a check: equal by seed, of the sizes that were asked for."""

import pytest

from portable_ffn import feed_forward
from portable_ffn.testing import check
from tests.testing.networks import network, numpy_only


def test_equal_seeds_give_equal_rows():
    one, same, other = (numpy_only(network, cases="ordinary", seed=seed).rows for seed in (3, 3, 4))
    assert one == same
    assert one != other


def test_sizes_are_those_that_were_asked_for():
    seen = set()

    def watched(x, W1, b1, W2, b2):
        seen.add((x.shape[-1], *W1.shape))
        return network(x, W1, b1, W2, b2)

    numpy_only(watched, d_model=5, d_ff=9, cases="ordinary")
    assert seen == {(5, 5, 9)}


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"d_model": 0}, ValueError, "d_model must be 1 or more, got 0"),
        ({"d_model": -3}, ValueError, "d_model must be 1 or more, got -3"),
        ({"d_ff": -1}, ValueError, "d_ff must be zero or more, got -1"),
        ({"d_ff": 2.5}, TypeError, r"d_ff must be an integer, got 2\.5"),
        ({"d_model": True}, TypeError, "d_model must be an integer, got True"),
        ({"seed": -1}, ValueError, "seed must be zero or more, got -1"),
        ({"seed": "1"}, TypeError, "seed must be an integer, got '1'"),
    ],
)
def test_sizes_and_seeds_are_whole_numbers(options, error, match):
    with pytest.raises(error, match=match):
        check(feed_forward, **options)


def test_an_empty_hidden_layer_is_checked():
    assert numpy_only(feed_forward, d_ff=0).passed
