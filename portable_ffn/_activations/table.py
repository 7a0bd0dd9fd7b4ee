"""Every activation by name: one literal table of values and derivatives."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import MappingProxyType

from portable_ffn._activations import exponential, normal, piecewise
from portable_ffn._activations.named import Named
from portable_ffn._arrays.errors import refusal
from portable_ffn._arrays.typing import Array

# name -> value, derivative. Adding one is a row here and the scalar formula in the oracle's table.
FORMULAS: Mapping[str, tuple[Callable[..., Array], Callable[..., Array]]] = {
    "relu": (piecewise.relu, piecewise.step),
    "relu2": (piecewise.relu2, piecewise.d_relu2),  # So et al. 2021 (Primer)
    "relu6": (piecewise.relu6, piecewise.d_relu6),  # Howard et al. 2017 (MobileNets)
    "gelu": (normal.gelu, normal.d_gelu),  # Hendrycks and Gimpel 2016: x times the normal distribution function
    "gelu_tanh": (exponential.gelu_tanh, exponential.d_gelu_tanh),  # ibid., the tanh form
    "quick_gelu": (exponential.quick_gelu, exponential.d_quick_gelu),  # ibid., the sigmoid form with 1.702
    "gelu_10": (normal.gelu_10, normal.d_gelu_10),  # GELU held to [-10, 10] (Prato et al. 2019)
    "silu": (exponential.silu, exponential.d_silu),  # Elfwing et al. 2017; Swish with beta 1
    "sigmoid": (exponential.sigmoid, exponential.d_sigmoid),
    "tanh": (exponential.tanh, exponential.d_tanh),
    "identity": (piecewise.identity, piecewise.d_identity),
    "leaky_relu": (piecewise.leaky_relu, piecewise.d_leaky_relu),  # Maas et al. 2013, slope 0.01
    "elu": (exponential.elu, exponential.d_elu),  # Clevert et al. 2015, alpha 1
    "selu": (exponential.selu, exponential.d_selu),  # Klambauer et al. 2017
    "mish": (exponential.mish, exponential.d_mish),  # Misra 2019
    "softplus": (exponential.softplus, exponential.sigmoid),
    "sqrt_softplus": (exponential.sqrt_softplus, exponential.d_sqrt_softplus),
    "hard_sigmoid": (piecewise.hard_sigmoid, piecewise.d_hard_sigmoid),
    "hard_swish": (piecewise.hard_swish, piecewise.d_hard_swish),  # Howard et al. 2019 (MobileNetV3)
    "laplace": (normal.laplace, normal.d_laplace),  # Ma et al. 2022 (Mega)
    "softsign": (piecewise.softsign, piecewise.d_softsign),
}

ACTIVATIONS: Mapping[str, Named] = MappingProxyType(
    {name: Named(name, value, derivative) for name, (value, derivative) in FORMULAS.items()},
)


# Words of the field for what has another name here.
_MEANT: Mapping[str, str] = {
    "swish": "'silu'",
    "linear": "'identity'",
    "none": "'identity'",
    "relu_squared": "'relu2'",
    "squared_relu": "'relu2'",
    "relu^2": "'relu2'",
    # Of transformers' ACT2FN; FastGELUActivation is the tanh form with x factored out.
    "gelu_new": "'gelu_tanh'",
    "gelu_fast": "'gelu_tanh'",
    "gelu_pytorch_tanh": "'gelu_tanh'",
    "gelu_accurate": "'gelu_tanh'",
    "gelu_python": "'gelu'",
    "gelu_erf": "'gelu'",
    "hardswish": "'hard_swish'",
    "hardsigmoid": "'hard_sigmoid'",
    "quickgelu": "'quick_gelu'",
    "leakyrelu": "'leaky_relu'",
    "swiglu": "'silu', with V, the weights of the linear branch",
    "geglu": "'gelu', with V, the weights of the linear branch",
    "reglu": "'relu', with V, the weights of the linear branch",
    "glu": "'sigmoid', with V, the weights of the linear branch",
}


def named(name: str) -> Named:
    """The activation of that name; ValueError with all names and what was probably meant where there is none."""
    found = ACTIVATIONS.get(name)
    if found is not None:
        return found
    near = get_close_matches(name.lower(), ACTIVATIONS, n=1, cutoff=0.4)
    meant = _MEANT.get(name.lower()) or (repr(near[0]) if near else None)
    statement = f"must be one of {', '.join(ACTIVATIONS)}, got {name!r}"
    raise refusal(ValueError, "activation", statement, f"did you mean {meant}?" if meant else "")
