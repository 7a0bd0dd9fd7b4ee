"""What other libraries call the activations that are named otherwise here: the one table of spellings."""

from difflib import get_close_matches
from typing import Any

from portable_ffn._arrays.kind import kind_of

# Their name (lower case) -> ours. A plain "gelu" is the exact one; the families that mean another by it are in
# `families`. gelu_new, gelu_fast, gelu_accurate and the rest of that line differ by less than 1e-11.
SPELLINGS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_exact": "gelu",
    "gelu_erf": "gelu",
    "gelu_none": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_approx": "gelu_tanh",
    "gelu_approximate": "gelu_tanh",
    "approximate_gelu": "gelu_tanh",
    "gelu_approx_tanh": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "quickgelu": "quick_gelu",
    "gelu_quick": "quick_gelu",
    "gelu_10": "gelu_10",
    "silu": "silu",
    "swish": "silu",
    "relu": "relu",
    "relu2": "relu2",
    "relu_squared": "relu2",
    "squared_relu": "relu2",
    "relu6": "relu6",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "linear": "identity",
    "identity": "identity",
    "hardswish": "hard_swish",
    "hard_swish": "hard_swish",
    "hardsigmoid": "hard_sigmoid",
    "hard_sigmoid": "hard_sigmoid",
    "mish": "mish",
    "leaky_relu": "leaky_relu",
    "leakyrelu": "leaky_relu",
    "elu": "elu",
    "selu": "selu",
    "softplus": "softplus",
    "softsign": "softsign",
    "sqrtsoftplus": "sqrt_softplus",
    "sqrt_softplus": "sqrt_softplus",
    "laplace": "laplace",
}

# Activations with weights of their own, which the checkpoint holds beside the matrices.
LEARNED = frozenset({"prelu", "xielu"})

# One word for a gated network and its activation, as the configs of T5's and DBRX's lines have it.
GATED_WORDS = {"swiglu": "silu", "geglu": "gelu", "reglu": "relu", "glu": "sigmoid"}


def ours(word: str) -> str | None:
    """Our name of an activation that a config names, or None where it is none that we know."""
    word = word.strip().lower().replace("-", "_").replace(" ", "_")
    if word in LEARNED:
        return word
    return SPELLINGS.get(word)


def fact(activation: Any) -> Any:
    """An activation given as a fact: a name in any spelling becomes ours, anything else is the caller's own."""
    if not isinstance(activation, str):
        if not callable(activation) and not hasattr(activation, "gate"):
            raise TypeError(
                "activation must be a name, a gate such as ClippedGate, or a callable on one array, got "
                f"{kind_of(activation)}"
            )
        return activation
    name = ours(activation)
    if name is not None:
        return name
    near = get_close_matches(activation, SPELLINGS, n=1)
    hint = f"; the nearest is {near[0]!r}" if near else ""
    names = ", ".join(sorted({*SPELLINGS.values(), *LEARNED}))
    raise ValueError(f"activation must be one of {names}, got {activation!r}{hint}")
