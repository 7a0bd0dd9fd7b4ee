"""A row of the tables of faults: what it says, and how it changes a network."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from portable_ffn._activations.named import activation_name
from portable_ffn._network.weights import Weights
from portable_ffn.testing._faults.computation import Computation


class Meant(NamedTuple):
    """What decides which faults a network can have: its activation, and the names of its arrays beside x, W1, W2."""

    activation: Any
    name: str
    gated: bool
    taken: frozenset[str]


def meant_by(activation: Any, weights: Weights) -> Meant:
    """The network of some weights."""
    taken = {name for name, array in weights._asdict().items() if array is not None}
    return meant_with(activation, weights.gated, taken)


def meant_with(activation: Any, gated: bool, taken: Iterable[str]) -> Meant:
    """The network that takes some arrays."""
    return Meant(activation, activation_name(activation), gated, frozenset(taken) - {"x", "W1", "W2"})


class Fault(NamedTuple):
    """One fault. `change` gives the faulty network, the same one where the fault makes no difference on this input.

    `common` faults are tried two at a time as well. `rank` says how simple it is: 0 for a row of the table, 1 where a
    number was found by fitting, 2 for two faults at once. A number that was fitted and not made simple has a little
    `slack`, since it is itself measured.
    """

    says: str
    change: Callable[[Computation], Computation]
    common: bool = False
    rank: int = 0
    slack: float = 1.0


class Family(NamedTuple):
    """Faults with a number that is found by fitting; `starts` are tried first, `nothing` is what is meant.

    `says` has {} where the number stands.
    """

    says: str
    change: Callable[[Computation, float], Computation]
    starts: tuple[float, ...]
    nothing: float | None = None

    def fault(self, number: float, slack: float = 1.0) -> Fault:
        """The fault with that number."""
        return Fault(self.says.format(f"{number:.6g}"), lambda of: self.change(of, number), rank=1, slack=slack)
