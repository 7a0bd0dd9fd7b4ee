"""A candidate in the light of its config: which config, family and activation keys speak for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from portable_ffn.checkpoint._config.activation_key import ConfigActivation, named_activations
from portable_ffn.checkpoint._config.families import family_of
from portable_ffn.checkpoint._config.family import Family
from portable_ffn.checkpoint._config.scope import Scope, scope_of
from portable_ffn.checkpoint._config.source import Source, source_of, source_within
from portable_ffn.checkpoint._config.survey import has_networks, surveyed
from portable_ffn.checkpoint._layers.candidates import Candidate, Info, is_network_path
from portable_ffn.checkpoint._layers.no_network import stands_between
from portable_ffn.checkpoint._layers.paths import unwrap
from portable_ffn.checkpoint._layers.readings import matrix_shape, readings
from portable_ffn.checkpoint._layers.words import BRIDGES, NETWORK_WORDS


class Context(NamedTuple):
    """What a config says of a path; the same for all layers of a stack."""

    scope: Scope
    family: Family
    surveyed: bool
    named: list[ConfigActivation]
    source: Source | None


@dataclass(frozen=True, slots=True)
class Layer:
    """A candidate with all that is known about it."""

    candidate: Candidate
    context: Context
    path: str
    is_expert: bool

    @property
    def scope(self) -> Scope:
        """The configs that apply."""
        return self.context.scope

    @property
    def family(self) -> Family:
        """What the family does otherwise."""
        return self.context.family

    @property
    def groups(self) -> tuple[int, int]:
        """The groups of both matrices of a grouped 1 x 1 convolution."""
        keys = self.family.groups
        if keys is None or self.candidate.stacked:
            return 1, 1
        first, second = (self.scope.get(key) for key in keys)
        return _count(first), _count(second)


def _count(value: Any) -> int:
    """A number of groups, 1 where the config says none that can be."""
    return value if type(value) is int and value > 0 else 1


def in_context(candidate: Candidate, config: Mapping[str, Any], known: dict[str, Context]) -> Layer:
    """A candidate with what the config says; `known` keeps what was said of other layers of the same stack."""
    path = unwrap(candidate.parent)
    parts = path.split(".")
    # Numbers don't tell stacks apart, so all layers of one are asked about once.
    stack = ".".join("0" if part.isdigit() else part for part in parts)
    first = candidate.pattern.W1
    context = known.get(f"{stack}:{first}")
    if context is None:
        context = known[f"{stack}:{first}"] = _context(stack, first, config)
    if context.family.packed and path.endswith("experts.mlp"):
        candidate = candidate._replace(stacked=True)
    return Layer(candidate, context, path, _among_experts(candidate, parts))


def scope_at(config: Mapping[str, Any], path: str) -> Scope:
    """The configs that speak for a path, as its family has it."""
    root = Scope((config,), ())
    outer = family_of(root, path)
    return root if outer.root else scope_of(config, path, outer.words)


def _context(path: str, first: str, config: Mapping[str, Any]) -> Context:
    """What the config says of a path."""
    source = source_of(config, path, first)
    if source is not None:
        scope = Scope(source.configs[::-1], source.names, source.types[::-1])
        return Context(scope, family_of(scope, path), True, [], source)
    scope = scope_at(config, path)
    # The innermost model type is the layer's own; those round it may be frames that take any model in.
    source = None if has_networks(config.get("model_type")) else source_within(scope, path, first)
    if source is not None:
        scope = Scope(scope.chain, scope.names, source.types[::-1])
    known = bool(scope.model_types) and surveyed(scope.model_types[0])
    return Context(scope, family_of(scope, path), known, named_activations(scope, path), source)


def _among_experts(candidate: Candidate, parts: list[str]) -> bool:
    """Whether a candidate is one of several networks that a router chooses from, or that stand beside them."""
    if candidate.stacked or candidate.pattern.W1.endswith("_shexp"):
        return True
    if any(part.startswith(("expert", "shared_expert", "share_expert")) for part in parts):
        return True
    # mlp.shared_mlp is a network inside a mixture's; a shared_mlp of the layer itself is a network of its own.
    return parts[-1] == "shared_mlp" and len(parts) > 1 and parts[-2] in NETWORK_WORDS


def acceptable(layer: Layer, tensors: Mapping[str, Info], names: Sequence[str]) -> bool:
    """Whether names as general as these are enough here, and whether the pair is a network at all; `names` sorted."""
    candidate = layer.candidate
    parts = layer.path.split(".")
    if not (layer.family.accept or is_network_path(layer.path)) and stands_between(candidate, tensors, names):
        return False
    if layer.family.ignore or any("router" in part for part in parts):
        return False
    if "norm" in parts[-1] and not layer.family.accept:
        return False
    if any(word in part for part in parts for word in BRIDGES):
        w1, w2 = (matrix_shape(tensors[key], candidate.stacked) for key in (candidate.W1, candidate.W2))
        if not any(readings(w1, w2, candidate.V is not None, layer.groups)):
            return False
    if layer.family.accept:
        return True
    if candidate.pattern.rare or not candidate.pattern.generic:
        return not candidate.pattern.rare
    if candidate.pattern.layer and candidate.last.isdigit():
        w1, w2 = (matrix_shape(tensors[key], candidate.stacked) for key in (candidate.W1, candidate.W2))
        return len(w1) == len(w2) == 2 and w1[0] == w2[1]
    return is_network_path(layer.path)
