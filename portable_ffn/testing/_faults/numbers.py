"""Faults with a number that is found by fitting: other constants, slopes, limits, scales and shifts."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from portable_ffn._activations.gates import ClippedGate
from portable_ffn.testing._backends.arrays import Float64
from portable_ffn.testing._faults.activations import ROOT, acting, sigmoid_times, tanh_gelu
from portable_ffn.testing._faults.branches import times
from portable_ffn.testing._faults.computation import Computation, Step
from portable_ffn.testing._faults.row import Family, Meant
from portable_ffn.testing._faults.steps import normalised, scaled, shifted, with_x


class Shape(NamedTuple):
    """An activation with a number, for networks that mean one of some names: what stands for each of these."""

    says: str
    function: Callable[[Float64, float], Float64]
    starts: tuple[float, ...]
    meant: dict[str, float | None]


def _leaky(h: Float64, t: float) -> Float64:
    return np.where(h > 0, h, t * h)


def _elu(h: Float64, t: float) -> Float64:
    return np.where(h > 0, h, t * np.expm1(np.minimum(h, 0.0)))


def _celu(h: Float64, t: float) -> Float64:
    return np.maximum(h, 0.0) + t * np.expm1(np.minimum(h, 0.0) / t)


def _hard(h: Float64, t: float) -> Float64:
    return np.clip(t * h + 0.5, 0.0, 1.0)


def _beyond(h: Float64, t: float) -> Float64:
    return np.where(h > t, h, 0.0)


def _power(h: Float64, t: float) -> Float64:
    return np.where(h > 0, np.maximum(h, 0.0) ** t, 0.0)


def _mish(h: Float64, t: float) -> Float64:
    return h * np.tanh(np.logaddexp(0.0, t * h))


_SIGMOIDAL: dict[str, float | None] = {"silu": 1.0, "quick_gelu": 1.702, "gelu": None, "gelu_tanh": None}
SHAPES: tuple[Shape, ...] = (
    Shape("elu with alpha", _elu, (0.1, 0.5, 1.5, 2.0), {"elu": 1.0, "relu": 0.0, "selu": None}),
    Shape("celu with alpha", _celu, (0.5, 2.0), {"elu": 1.0}),
    Shape("leaky_relu with slope", _leaky, (0.02, 0.05, 0.1, 0.2, 0.5, -0.1), {"leaky_relu": 0.01, "relu": 0.0}),
    Shape("h sigmoid(a h) with a =", lambda h, t: sigmoid_times(t)(h), (0.5, 1.3, 1.6, 1.75, 2.0, 3.0), _SIGMOIDAL),
    Shape("relu cut at", lambda h, t: np.clip(h, 0.0, t), (0.5, 1.0, 2.0, 4.0, 5.0), {"relu6": 6.0, "relu": None}),
    Shape("relu from a threshold of", _beyond, (-0.5, 0.1, 0.5, 1.0), {"relu": 0.0}),
    Shape("relu to the power", _power, (1.5, 3.0), {"relu2": 2.0, "relu": 1.0}),
    Shape(
        "the tanh GELU with a cube's factor of",
        lambda h, t: tanh_gelu(cube=t)(h),
        (0.02, 0.04, 0.05, 0.1),
        {"gelu_tanh": 0.044715, "gelu": None},
    ),
    Shape(
        "the tanh GELU with a root of",
        lambda h, t: tanh_gelu(root=t)(h),
        (0.6, 0.7, 0.75, 0.85, 1.0),
        {"gelu_tanh": ROOT, "gelu": None},
    ),
    Shape("softplus with beta", lambda h, t: np.logaddexp(0.0, t * h) / t, (0.5, 2.0, 5.0), {"softplus": 1.0}),
    Shape("hard_sigmoid with a slope of", _hard, (0.1, 0.2, 0.25), {"hard_sigmoid": 1.0 / 6.0, "sigmoid": None}),
    Shape("tanh of h times", lambda h, t: np.tanh(t * h), (0.5, 2.0), {"tanh": 1.0}),
    Shape("sigmoid of h times", lambda h, t: 0.5 + 0.5 * np.tanh(0.5 * t * h), (0.5, 1.702, 2.0), {"sigmoid": 1.0}),
    Shape(
        "mish with softplus of h times", lambda h, t: h * np.tanh(np.logaddexp(0.0, t * h)), (0.5, 2.0), {"mish": 1.0}
    ),
)


def of_activations(meant: Meant) -> Iterator[Family]:
    """Activations with a number of their own."""
    act = meant.activation
    if isinstance(act, ClippedGate):
        yield _of_gate(act, "limit", (0.25, 0.5, 2.0, 3.0, 5.0, 6.0, 7.0, 10.0))
        yield _of_gate(act, "alpha", (0.5, 1.5, 1.702, 2.0, 3.0))
        yield _of_gate(act, "offset", (-1.0, -0.5, 0.5, 1.0, 2.0))
    if isinstance(act, str):
        for shape in SHAPES:
            if act in shape.meant:
                yield Family(f"{shape.says} {{}}", partial(_shaped, shape), shape.starts, shape.meant[act])


def _shaped(shape: Shape, of: Computation, t: float) -> Computation:
    """A network with one of the shapes."""
    return acting(lambda h: shape.function(h, t))(of)


def _of_gate(gate: ClippedGate, field: str, starts: tuple[float, ...]) -> Family:
    """A gate with another number."""
    given = getattr(gate, field)

    def change(of: Computation, t: float) -> Computation:
        there: dict[str, Any] = {field: max(t, 0.0) if field == "limit" else t}
        return acting(replace(gate, **there))(of)

    return Family(f"{field} {{}} where {'none' if given is None else f'{given:g}'} is meant", change, starts, given)


SIZES = (-1.0, 0.1, 0.25, 0.7071, 0.8, 1.25, 1.5, 2.0, 3.0, 10.0)
SHIFTS = (-1.0, -0.1, 0.1, 0.5, 1.0)
# What is scaled: the arrays, in words, and whether only a gated network has it.
SCALED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("b1",), "b1 times {}"),
    (("b2",), "b2 times {}"),
    (("c",), "c times {}"),
    (("W1",), "W1 scaled by {}"),
    (("W2",), "W2 scaled by {}"),
    (("V",), "V scaled by {}"),
    (("W1", "b1"), "what enters the activation scaled by {}"),
    (("V", "c"), "the linear branch scaled by {}"),
)
# Where a step with a number is done, in words; the number that stands for nothing; whether only a gated network has it.
STEPS: tuple[tuple[str, str, Callable[[float], Step], tuple[float, ...], float, bool], ...] = (
    ("after", "everything scaled by {}", scaled, SIZES, 1.0, False),
    ("after", "{} added to everything", shifted, SHIFTS, 0.0, False),
    ("after", "x added {} times", with_x, SHIFTS, 0.0, False),
    ("before", "x scaled by {}", scaled, SIZES, 1.0, True),
    ("before", "{} added to x", shifted, SHIFTS, 0.0, False),
    ("gate", "{} added to what enters the activation", shifted, SHIFTS, 0.0, False),
    ("between", "{} added to the hidden layer", shifted, SHIFTS, 0.0, False),
    ("linear", "the linear branch shifted by {}", shifted, SHIFTS, 0.0, True),
)


def of_scales(meant: Meant) -> Iterator[Family]:
    """Scales and shifts of arrays, branches, x and the output; a scaled output with the residual; the eps of a norm."""
    there = {"W1", "W2", *meant.taken}
    for names, says in SCALED:
        if names[0] in there:
            yield Family(says, partial(_times, names), SIZES, 1.0)
    for place, says, step, starts, nothing, gated in STEPS:
        if meant.gated or not gated:
            yield Family(says, partial(_stepped, place, step), starts, nothing)
    yield Family("the residual x added to the output times {}", _layer_scale, SIZES)
    for kind in ("layer", "RMS"):
        yield Family(f"{kind} normalisation of x inside, eps {{}}", partial(_of_eps, kind), (1e-4, 1e-2, 1e-1))


def _times(names: tuple[str, ...], of: Computation, t: float) -> Computation:
    return times(names, t)(of)


def _stepped(place: str, step: Callable[[float], Step], of: Computation, t: float) -> Computation:
    return of.also(place, step(t))


def _layer_scale(of: Computation, t: float) -> Computation:
    return of.also("after", scaled(t), with_x(1.0))


def _of_eps(kind: str, of: Computation, t: float) -> Computation:
    return of.also("before", normalised(kind, abs(t)))
