"""A layer's activation: the fact given, what the family's code fixes, or what the config names."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from portable_ffn.checkpoint._config.activation_key import ConfigActivation, read_value
from portable_ffn.checkpoint._config.family import Family, Switch
from portable_ffn.checkpoint._config.scope import Scope
from portable_ffn.checkpoint._config.source import Source
from portable_ffn.checkpoint._config.spellings import LEARNED, fact
from portable_ffn.checkpoint._errors import Undecided
from portable_ffn.checkpoint._facts.gates import gate_of

# Keys of configs of families that clamp, cap or thin out the gate, while their hidden_act says silu.
_TELLING = (
    "swiglu_limit",
    "swiglu_limits",
    "swiglu_alpha",
    "mlp_gate_softcap",
    "mlp_up_softcap",
    "activation_sparsity_pattern",
)


class ActivationChoice(NamedTuple):
    """What `feed_forward` takes as its activation: a name, an object, or the name of a learned one to be read."""

    activation: Any
    reason: str

    @property
    def learned(self) -> bool:
        """Whether the checkpoint holds weights of the activation itself."""
        return isinstance(self.activation, str) and self.activation in LEARNED


def choose_activation(
    scope: Scope,
    path: str,
    family: Family,
    named: Sequence[ConfigActivation],
    given: Any,
    layer: int,
    surveyed: bool,
    source: Source | None,
) -> ActivationChoice:
    """The activation: the fact given, what the family's code fixes, or what the layer's own config says or defaults to.

    `Undecided` where it isn't known which config is the layer's own, nothing names it, two keys disagree, or a word has
    two meanings.
    """
    if given is not None:
        return ActivationChoice(fact(given), "activation: given")
    fixed = family.activation
    if isinstance(fixed, str):
        return ActivationChoice(_built(fixed), f"activation: {fixed}, fixed by the family's code")
    if isinstance(fixed, Switch):
        name = fixed.no if scope.get(fixed.key) is False else fixed.yes
        return ActivationChoice(name, f"activation: {fixed.key} of {scope.label}, true where it is silent")

    def base() -> ActivationChoice:
        if source is not None:
            return _by_source(source, path, family)
        if surveyed:
            raise Undecided(
                f"{path or 'the layer'} must be a network that {scope.model_types[0]} is known to have, so that it is "
                f"known which of its configs speaks for it; it isn't, or only the end of a path is there. Pass "
                'activation=, such as activation="gelu", or give the checkpoint with its names as they were saved',
                "activation",
            )
        if scope.names or not scope.speaks_for(path):
            raise Undecided(
                f"{path} must have a config of its own, which says its activation; {scope.label} is that of another "
                "part, or of a model type that isn't known. Pass activation=",
                "activation",
            )
        _refuse_two_meanings(scope, named)
        return _by_config(scope, path, named)

    return base() if fixed is None else ActivationChoice(*gate_of(fixed, base, scope, layer))


def _by_source(source: Source, path: str, family: Family) -> ActivationChoice:
    """The activation of a layer whose config, and the key that its code reads there, are known."""
    if source.fixed:
        return ActivationChoice(source.fixed, f"activation: {source.fixed}, fixed in the code of {source.types[-1]}")
    said = source.said()
    if said is None:
        value = source.default()
        if value is None:
            raise Undecided(
                f"{source.label} must have {source.key}, the activation of {path}; it hasn't, and no default of "
                f"{source.types[-1]} is known. Pass activation=",
                "activation",
            )
        where = f"which is the default of {source.types[-1]}'s {source.key}; {source.label} says nothing of it"
        one = read_value(source.key, value, source.gated_gelu)
        return ActivationChoice(_known(one, source.label), f"activation: {value}, {where}")
    key, value = said
    one = read_value(key, value, source.gated_gelu)
    ours, name = _known(one, source.label), f"{source.label}.{key}" if source.names else key
    if family.means is not None and ours == family.means[0] and one.value.lower() == family.means[0]:
        return ActivationChoice(
            family.means[1], f"activation: {name} = {one.value}, which means {family.means[1]} here"
        )
    return ActivationChoice(ours, f"activation: {name} = {one.value}")


def _known(one: ConfigActivation, label: str) -> str:
    """The name of ours; `Undecided` where the config's is none that is known."""
    if one.ours is None:
        raise Undecided(
            f"{one.key} of {label} is {one.value!r}, which is no activation that is known; pass activation=",
            "activation",
        )
    return one.ours


def _refuse_two_meanings(scope: Scope, named: Sequence[ConfigActivation]) -> None:
    """Where the family is not known: `Undecided` for a config that tells of more than a plain activation."""
    for key in _TELLING:
        value = scope.get(key)
        if value is not None:
            raise Undecided(
                f"{scope.label} has {key} = {str(value)[:60]}, and what model type "
                f"{scope.model_types[0] if scope.model_types else 'none'!r} does with it is not known; pass "
                "activation=, such as ClippedGate(limit, alpha, offset)",
                "activation",
            )
    for one in named:
        if one.vague:
            raise Undecided(
                f"{one.key} of {scope.label} is {one.value!r}, which some families read as the exact GELU "
                'and some as its tanh form; pass activation="gelu" or activation="gelu_tanh"',
                "activation",
            )


def _by_config(scope: Scope, path: str, named: Sequence[ConfigActivation]) -> ActivationChoice:
    """The activation that the config of a model type names which isn't known."""
    if not named:
        raise Undecided(
            f"the activation of {path or 'the layer'} must be named, and no key of {scope.label} names it; pass "
            'activation=, such as activation="gelu"',
            "activation",
        )
    ours = [_known(one, scope.label) for one in named]
    if len(set(ours)) > 1:
        said = ", ".join(f"{n.key} = {n.value}" for n in named)
        raise Undecided(
            f"the activation of {path} must be one, and {scope.label} names several: {said}; pass activation=",
            "activation",
        )
    return ActivationChoice(ours[0], f"activation: {named[0].key} = {named[0].value}")


def _built(name: str) -> Any:
    """A name of the table, or the object that it stands for."""
    if name == "bloom_gelu":
        from portable_ffn._activations.learned import TanhGELU

        return TanhGELU(0.79788456)
    return name
