"""A candidate in the light of its config: which config, family and activation keys speak for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from portable_ffn.checkpoint._config.activation_key import Named, named_activations
from portable_ffn.checkpoint._config.families import otherwise
from portable_ffn.checkpoint._config.family import Otherwise
from portable_ffn.checkpoint._config.scope import Scope, scope_of
from portable_ffn.checkpoint._config.surveyed import SURVEYED
from portable_ffn.checkpoint._facts.layout import matrix_shape, readings
from portable_ffn.checkpoint._layers.candidates import Candidate, Info, is_network_path
from portable_ffn.checkpoint._layers.paths import unwrap
from portable_ffn.checkpoint._layers.patterns import BRIDGES, NETWORK_WORDS


class Said(NamedTuple):
    """What a config says of a path; the same for all layers of a stack."""

    scope: Scope
    family: Otherwise
    surveyed: bool
    named: list[Named]


@dataclass(frozen=True, slots=True)
class Question:
    """A candidate with all that is known about it."""

    found: Candidate
    said: Said
    path: str
    is_expert: bool

    @property
    def scope(self) -> Scope:
        """The configs that apply."""
        return self.said.scope

    @property
    def family(self) -> Otherwise:
        """What the family does otherwise."""
        return self.said.family

    @property
    def groups(self) -> tuple[int, int]:
        """The groups of both matrices of a grouped 1 x 1 convolution."""
        keys = self.family.groups
        if keys is None or self.found.stacked:
            return 1, 1
        first, second = (self.scope.get(key) for key in keys)
        return (first if isinstance(first, int) else 1), (second if isinstance(second, int) else 1)


def ask(found: Candidate, config: Mapping[str, Any], known: dict[str, Said]) -> Question:
    """A candidate with what the config says; `known` keeps what was said of other layers of the same stack."""
    path = unwrap(found.parent)
    parts = path.split(".")
    # Numbers don't tell stacks apart, so all layers of one are asked about once.
    stack = ".".join("0" if part.isdigit() else part for part in parts)
    said = known.get(stack)
    if said is None:
        said = known[stack] = _said(stack, config)
    if said.family.packed and path.endswith("experts.mlp"):
        found = found._replace(stacked=True)
    return Question(found, said, path, _among_experts(found, parts))


def scope_at(config: Mapping[str, Any], path: str) -> Scope:
    """The configs that speak for a path, as its family has it."""
    root = Scope((config,), ())
    outer = otherwise(root, path)
    return root if outer.root else scope_of(config, path, outer.words)


def _said(path: str, config: Mapping[str, Any]) -> Said:
    """What the config says of a path."""
    scope = scope_at(config, path)
    # The innermost model type is the layer's own; those round it may be frames that take any model in.
    surveyed = bool(scope.model_types) and scope.model_types[0] in SURVEYED
    return Said(scope, otherwise(scope, path), surveyed, named_activations(scope, path))


def _among_experts(found: Candidate, parts: list[str]) -> bool:
    """Whether a candidate is one of several networks that a router chooses from, or that stand beside them."""
    if found.stacked or found.pattern.W1.endswith("_shexp"):
        return True
    if any(part.startswith(("expert", "shared_expert", "share_expert")) for part in parts):
        return True
    # mlp.shared_mlp is a network inside a mixture's; a shared_mlp of the layer itself is a network of its own.
    return parts[-1] == "shared_mlp" and len(parts) > 1 and parts[-2] in NETWORK_WORDS


def acceptable(question: Question, tensors: Mapping[str, Info]) -> bool:
    """Whether names as general as these are enough here."""
    found = question.found
    parts = question.path.split(".")
    if question.family.ignore or any("router" in part for part in parts):
        return False
    if "norm" in parts[-1] and not question.family.accept:
        return False
    if any(word in part for part in parts for word in BRIDGES):
        w1, w2 = (matrix_shape(tensors[key], found.stacked) for key in (found.W1, found.W2))
        if not any(readings(w1, w2, found.V is not None, question.groups)):
            return False
    if question.family.accept:
        return True
    if found.pattern.rare or not found.pattern.generic:
        return not found.pattern.rare
    if found.pattern.layer and found.last.isdigit():
        w1, w2 = (matrix_shape(tensors[key], found.stacked) for key in (found.W1, found.W2))
        return w1[0] == w2[1]
    return is_network_path(question.path)
