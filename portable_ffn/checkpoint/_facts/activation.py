"""A layer's activation: the fact given, what the family's code fixes, or what the config names."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from portable_ffn.checkpoint._config.activation_key import ConfigActivation
from portable_ffn.checkpoint._config.family import Clip, Family, Softcap, Switch, TopK
from portable_ffn.checkpoint._config.scope import Scope
from portable_ffn.checkpoint._config.spellings import LEARNED, fact
from portable_ffn.checkpoint._config.surveyed import DEFAULTS
from portable_ffn.checkpoint._errors import CheckpointError, Undecided

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
) -> ActivationChoice:
    """The activation, or `Undecided` where nothing names it, two keys disagree, or a word has two meanings."""
    if given is not None:
        return ActivationChoice(fact(given), "activation: given")
    fixed = family.activation
    if isinstance(fixed, str):
        return ActivationChoice(_built(fixed), f"activation: {fixed}, fixed by the family's code")
    if isinstance(fixed, Switch):
        name = fixed.no if scope.get(fixed.key) is False else fixed.yes
        return ActivationChoice(name, f"activation: {fixed.key} in the config")
    if not surveyed:
        _refuse_two_meanings(scope, named)

    def base() -> ActivationChoice:
        return _by_config(scope, path, family, named)

    return base() if fixed is None else _gate(fixed, base, scope, layer)


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


def _by_config(scope: Scope, path: str, family: Family, named: Sequence[ConfigActivation]) -> ActivationChoice:
    """The activation that the config names."""
    if family.key is not None:
        named = [n for n in named if n.key == family.key] or named
    names = {n.ours for n in named}
    model = scope.model_types[0] if scope.model_types else ""
    if not named and model in DEFAULTS:
        return ActivationChoice(
            DEFAULTS[model], f"activation: {DEFAULTS[model]}, which {model} has where its config names none"
        )
    if not named:
        raise Undecided(
            f"the activation of {path or 'the layer'} must be named, and no key of {scope.label} names it; pass "
            'activation=, such as activation="gelu"',
            "activation",
        )
    if None in names:
        unknown = next(n for n in named if n.ours is None)
        raise Undecided(
            f"{unknown.key} of {scope.label} is {unknown.value!r}, which is no activation that is known; "
            "pass activation=",
            "activation",
        )
    if len(names) > 1:
        said = ", ".join(f"{n.key} = {n.value}" for n in named)
        raise Undecided(
            f"the activation of {path} must be one, and {scope.label} names several: {said}; pass activation=",
            "activation",
        )
    one = named[0]
    ours = one.ours
    assert ours is not None
    if family.means is not None and ours == family.means[0] and one.value.lower() == family.means[0]:
        return ActivationChoice(
            family.means[1], f"activation: {one.key} = {one.value}, which means {family.means[1]} here"
        )
    return ActivationChoice(ours, f"activation: {one.key} = {one.value}")


def _built(name: str) -> Any:
    """A name of the table, or the object that it stands for."""
    if name == "bloom_gelu":
        from portable_ffn._activations.learned import TanhGELU

        return TanhGELU(0.79788456)
    return name


def _gate(
    fixed: Clip | Softcap | TopK, base: Callable[[], ActivationChoice], scope: Scope, layer: int
) -> ActivationChoice:
    """A gate object with the numbers that the config holds."""
    from portable_ffn._activations.gates import ClippedGate, SoftcapGate, TopKGate

    try:
        if isinstance(fixed, Softcap):
            gate_cap, up_cap = (_number(scope, key, layer) for key in fixed)
            if gate_cap is None or up_cap is None:
                raise CheckpointError(f"the config must have {fixed.gate} and {fixed.up}; it hasn't")
            return ActivationChoice(
                SoftcapGate(gate_cap, up_cap), f"activation: softcapped, by {fixed.gate} and {fixed.up}"
            )
        if isinstance(fixed, TopK):
            share = _number(scope, fixed.sparsity, layer)
            if not share:
                return base()
            return ActivationChoice(
                TopKGate(share, base().activation), f"activation: Gaussian top-k by {fixed.sparsity}"
            )
        limit, alpha = _number(scope, fixed.limit, layer), _number(scope, fixed.alpha, layer)
        alpha = fixed.alpha_else if alpha is None else alpha
        if limit is None and not fixed.optional:
            raise Undecided(
                f"{scope.label} must have {fixed.limit}, the clamp of this family's gate; it hasn't. Pass "
                "activation=ClippedGate(...)",
                "activation",
            )
        if not limit and fixed.optional and alpha == 1.0 and not fixed.offset:
            return base()
        clamped = ClippedGate(limit, alpha, fixed.offset, "after" if fixed.clip == "after" else "before")
        return ActivationChoice(clamped, f"activation: clamped, by {fixed.limit}")
    except CheckpointError:
        raise
    except ValueError as error:
        raise CheckpointError(f"the numbers of the gate in {scope.label} are none that it can have: {error}") from error


def _number(scope: Scope, number: float | str, layer: int) -> float | None:
    """A number, or what the config holds under a key: one, or one a layer."""
    return scope.number(number, layer) if isinstance(number, str) else float(number)
