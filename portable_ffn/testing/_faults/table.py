"""The faults that are known: one literal table of kinds, each of which gives its rows for a network that is meant."""

from collections.abc import Callable, Iterator
from itertools import permutations

from portable_ffn.testing._faults import activations, branches, layouts, numbers, positions
from portable_ffn.testing._faults.computation import Computation
from portable_ffn.testing._faults.row import Family, Fault, Meant

KINDS: tuple[Callable[[Meant], Iterator[Fault]], ...] = (
    activations.another_activation,
    activations.another_clamp,
    branches.another_bias,
    branches.another_branch,
    layouts.another_layout,
    activations.another_place,
    layouts.around,
    layouts.another_scale,
    positions.mixed,
    positions.lost,
)
FITTED: tuple[Callable[[Meant], Iterator[Family]], ...] = (numbers.of_activations, numbers.of_scales)


def faults(meant: Meant) -> list[Fault]:
    """Every fault without a number of its own."""
    return [fault for kind in KINDS for fault in kind(meant)]


def families(meant: Meant) -> list[Family]:
    """Every fault with a number."""
    return [family for kind in FITTED for family in kind(meant)]


def pairs(singles: list[Fault]) -> Iterator[Fault]:
    """Two common faults at once, one after the other."""
    common = [fault for fault in singles if fault.common]
    for one, other in permutations(common, 2):
        yield Fault(f"{one.says}, and {other.says}", _both(one, other), rank=2)


def _both(one: Fault, other: Fault) -> Callable[[Computation], Computation]:
    """One change after the other."""
    return lambda of: other.change(one.change(of))
