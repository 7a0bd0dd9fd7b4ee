"""Our activations that are made of numbers, to a dictionary and back: what files and configurations keep of them."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from portable_ffn._activations.gates import ClippedGate, SoftcapGate, TopKGate
from portable_ffn._activations.learned import XIELU, PReLU, TanhGELU
from portable_ffn._arrays.typing import Activation

KINDS: Mapping[str, type[Any]] = {
    "ClippedGate": ClippedGate,
    "SoftcapGate": SoftcapGate,
    "TopKGate": TopKGate,
    "PReLU": PReLU,
    "XIELU": XIELU,
    "TanhGELU": TanhGELU,
}


def to_dict(activation: Activation) -> dict[str, dict[str, Any]] | None:
    """{its kind: {the name of each number: the number}}; None for an activation of another kind."""
    own: Any = activation
    kind = type(own).__name__
    return {kind: asdict(own)} if KINDS.get(kind) is type(own) else None


def from_dict(held: Mapping[str, Mapping[str, Any]]) -> Activation:
    """The activation that `to_dict` was given, from what JSON makes of the dictionary too.

    Raises KeyError for an unknown kind, TypeError and ValueError for names and numbers that are not its own.
    """
    ((kind, numbers),) = held.items()
    own: Activation = KINDS[kind](**{
        name: tuple(number) if isinstance(number, list) else number for name, number in numbers.items()
    })  # fmt: skip
    return own
