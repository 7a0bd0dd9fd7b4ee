"""Gates with numbers of their own, which the config holds: clamped, capped, or thinned out."""

from collections.abc import Callable
from typing import Any, Literal

from portable_ffn.checkpoint._config.family import Clip, Softcap, TopK
from portable_ffn.checkpoint._config.scope import Scope
from portable_ffn.checkpoint._errors import CheckpointError, Undecided


def gate_of(
    fixed: Clip | Softcap | TopK, base: Callable[[], tuple[Any, str]], scope: Scope, layer: int
) -> tuple[Any, str]:
    """The gate and the reason; `base` says what its activation is without the clamp.

    Raises Undecided where the config lacks a number and no default of it is known, CheckpointError where it is none
    that the gate can have.
    """
    from portable_ffn._activations.gates import SoftcapGate, TopKGate

    try:
        if isinstance(fixed, Softcap):
            gate_cap, up_cap = (_number(scope, key, layer) for key in fixed)
            if gate_cap is None or up_cap is None:
                raise CheckpointError(f"the config must have {fixed.gate} and {fixed.up}; it hasn't")
            return SoftcapGate(gate_cap, up_cap), f"activation: softcapped, by {fixed.gate} and {fixed.up}"
        if isinstance(fixed, TopK):
            share = _number(scope, fixed.sparsity, layer)
            if not share:
                return base()
            activation, reason = base()
            return TopKGate(share, activation), f"{reason}, and a Gaussian top-k by {fixed.sparsity}"
        return _clamped(fixed, base, scope, layer)
    except CheckpointError:
        raise
    except ValueError as error:
        raise CheckpointError(f"the numbers of the gate in {scope.label} are none that it can have: {error}") from error


def _clamped(fixed: Clip, base: Callable[[], tuple[Any, str]], scope: Scope, layer: int) -> tuple[Any, str]:
    """A gate with clamps: SwiGLU's with the row's own numbers, or any activation's that the config names."""
    from portable_ffn._activations.clamped import ClampedGate
    from portable_ffn._activations.gates import ClippedGate

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
    clip: Literal["before", "after"] = "after" if fixed.clip == "after" else "before"
    reason = f"activation: clamped, by {fixed.limit}"
    if fixed.named:
        activation, why = base()
        if activation not in ("silu", "quick_gelu"):
            return ClampedGate(limit, activation, clip), f"{reason}; {why}"
        alpha, reason = 1.0 if activation == "silu" else 1.702, f"{reason}; {why}"
    return ClippedGate(limit, alpha, fixed.offset, clip), reason


def _number(scope: Scope, number: float | str, layer: int) -> float | None:
    """A number, or what the config holds under a key: one, or one a layer."""
    return scope.number(number, layer) if isinstance(number, str) else float(number)
