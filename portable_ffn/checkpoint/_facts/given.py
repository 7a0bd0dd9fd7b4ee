"""The facts that a caller gives: one for all layers, or one for each stack."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from portable_ffn.checkpoint._config.spellings import fact

_WORDS = {"gate": ("first", "second", "interleaved"), "layout": ("out_in", "in_out")}


@dataclass(frozen=True, slots=True)
class Facts:
    """What the caller knows: each None where it is left to the checkpoint, or a mapping of stacks to facts."""

    activation: Any = None
    gate: Any = None
    layout: Any = None

    def of(self, stack: str) -> "Facts":
        """The facts of one stack: those given for its name, else for the most words of it, as "vision" of a tower."""
        return Facts(*(_of(value, stack) for value in (self.activation, self.gate, self.layout)))

    def check_stacks(self, stacks: Collection[str]) -> None:
        """ValueError for a fact of a stack that the checkpoint hasn't: it would be lost without a word."""
        for name, value in (("activation", self.activation), ("gate", self.gate), ("layout", self.layout)):
            for stack in value if isinstance(value, Mapping) else ():
                if not any(_fits(stack, there) for there in stacks):
                    raise ValueError(
                        f"{name} must be given for stacks that there are, {', '.join(map(repr, sorted(stacks)))}, or "
                        f"words of their names, got one for {stack!r}"
                    )


def given_facts(activation: Any, gate: Any, layout: Any) -> Facts:
    """The facts, checked; ValueError or TypeError for what is none."""
    for name, value in (("gate", gate), ("layout", layout)):
        for one in _values(name, value):
            if one not in _WORDS[name]:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, _WORDS[name]))}, got {one!r}")
    if isinstance(activation, Mapping):
        _values("activation", activation)
        activation = {stack: None if one is None else fact(one) for stack, one in activation.items()}
    elif activation is not None:
        activation = fact(activation)
    return Facts(activation, gate, layout)


def _values(name: str, value: Any) -> list[Any]:
    """The facts in an argument."""
    if not isinstance(value, Mapping):
        return [] if value is None else [value]
    for stack in value:
        if not isinstance(stack, str):
            raise TypeError(f"{name} must name stacks by str, got {stack!r}")
    return [one for one in value.values() if one is not None]


def _of(value: Any, stack: str) -> Any:
    """The fact of one stack."""
    if not isinstance(value, Mapping):
        return value
    if stack in value:
        return value[stack]
    fitting = [name for name in value if _fits(name, stack)]
    return value[max(fitting, key=lambda name: name.count("+"))] if fitting else None


def _fits(name: str, stack: str) -> bool:
    """Whether a name is a stack's, or words of it."""
    return set(name.split("+")) <= set(stack.split("+"))
