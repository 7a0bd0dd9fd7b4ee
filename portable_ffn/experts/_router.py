"""What chooses the experts: a router's arrays, and the rule by which their scores become a choice and weights."""

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, NamedTuple, get_args

from portable_ffn._arrays.number import as_float
from portable_ffn._arrays.typing import Array

Score = Literal["softmax", "sigmoid", "sqrt_softplus", "softmax_of_chosen"]
GroupValue = Literal["max", "top2_sum"]
ApplyTo = Literal["output", "input"]


class Router(NamedTuple):
    """The arrays of a router: logits = x W + b.

    Attributes
    ----------
    W : array, shape (d_model, E)
    b : array, shape (E,), or None
    selection_bias : array, shape (E,), or None
        Added where experts are chosen, and not where they are weighted (Wang et al. 2024, Auxiliary-Loss-Free Load
        Balancing).
    """

    W: Array
    b: Array | None = None
    selection_bias: Array | None = None


@dataclass(frozen=True, slots=True)
class Routing:
    """How the logits of a router become a choice of experts and their weights.

    Parameters
    ----------
    top_k : int
        How many experts a position is given, at least one.
    score : {"softmax", "sigmoid", "sqrt_softplus", "softmax_of_chosen"}
        The first three are taken over all experts: chosen by score + selection_bias, weighted by the score alone.
        "softmax_of_chosen" chooses by logits + selection_bias and is the softmax over the chosen logits.
    normalise : bool
        Whether the weights are divided by their sum + epsilon.
    epsilon : float
        Zero or more. Where it is 0 and the chosen scores sum to 0, the weights are 0.
    scale : float
        A factor on the weights, after that.
    groups : (int, int, {"max", "top2_sum"}) or None
        n_groups, top_groups and a group's value: the experts stand in n_groups consecutive groups of one size, and
        those outside the top_groups best ones are never chosen. A group's value is the largest, or the sum of the two
        largest, of what experts are chosen by (DeepSeek-AI 2024, DeepSeek-V2, section 2.2.2; -V3, section 2.1.2).
    apply_to : {"output", "input"}
        Whether the weight multiplies what the expert returns, or what it is given (Llama 4).

    Raises
    ------
    TypeError
        For what is no number, or no integer where one is meant.
    ValueError
        For a top_k below 1 or beyond what the groups hold, an unknown name, a negative epsilon, a number that is not
        finite, more top_groups than n_groups.
    """

    top_k: int
    _: KW_ONLY
    score: Score = "softmax"
    normalise: bool = False
    epsilon: float = 0.0
    scale: float = 1.0
    groups: tuple[int, int, GroupValue] | None = None
    apply_to: ApplyTo = "output"

    def __post_init__(self) -> None:
        object.__setattr__(self, "top_k", _count("top_k", self.top_k))
        _one_of("score", self.score, get_args(Score))
        _one_of("apply_to", self.apply_to, get_args(ApplyTo))
        if type(self.normalise) is not bool:
            raise TypeError(f"normalise must be True or False, got {self.normalise!r}")
        for name in ("epsilon", "scale"):
            value = as_float(name, getattr(self, name))
            if not math.isfinite(value):
                raise ValueError(f"{name} must be finite, got {value}")
            object.__setattr__(self, name, value)
        if self.epsilon < 0:
            raise ValueError(f"epsilon must be zero or more, got {self.epsilon}")
        if self.groups is not None:
            object.__setattr__(self, "groups", _groups(self.groups))


def _groups(groups: Any) -> tuple[int, int, GroupValue]:
    """(n_groups, top_groups, value) that can be."""
    if not isinstance(groups, (tuple, list)) or len(groups) != 3:
        raise TypeError(f'groups must be (n_groups, top_groups, "max" or "top2_sum") or None, got {groups!r}')
    n_groups, top_groups = _count("n_groups", groups[0]), _count("top_groups", groups[1])
    if top_groups > n_groups:
        raise ValueError(f"groups: top_groups must be at most n_groups = {n_groups}, got {top_groups}")
    _one_of("the value of groups", groups[2], get_args(GroupValue))
    return n_groups, top_groups, groups[2]


def _count(name: str, value: Any) -> int:
    """A whole number of at least one."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    number = int(value.__index__())
    if number < 1:
        raise ValueError(f"{name} must be 1 or more, got {number}")
    return number


def _one_of(name: str, value: Any, names: tuple[str, ...]) -> None:
    """Raise ValueError unless it is one of the names."""
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"{name} must be one of {', '.join(names)}, got {value!r}")


for _public in (Router, Routing):
    _public.__module__ = "portable_ffn.experts"
