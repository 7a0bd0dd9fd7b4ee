"""Faults of the activation: another one, other constants, a gate clamped elsewhere, none, one too many."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from portable_ffn import oracle
from portable_ffn._activations.gates import ClippedGate
from portable_ffn.testing._backends.arrays import Float64
from portable_ffn.testing._faults.computation import Computation, elementwise
from portable_ffn.testing._faults.row import Fault, Meant
from portable_ffn.testing._faults.steps import activated

ROOT = math.sqrt(2.0 / math.pi)
_NEAR = ("gelu", "gelu_tanh", "quick_gelu", "silu")


def tanh_gelu(root: float = ROOT, cube: float = 0.044715) -> Callable[[Float64], Float64]:
    """The tanh GELU with other constants."""
    # Without the cube no infinity of it may come in.
    return lambda h: 0.5 * h * (1.0 + np.tanh(root * (h + cube * h**3 if cube else h)))


def sigmoid_times(alpha: float) -> Callable[[Float64], Float64]:
    """The function h sigmoid(alpha h)."""
    return lambda h: h * (0.5 + 0.5 * np.tanh(0.5 * alpha * h))


# Constants that are written wrongly, by the activations that have them.
CONSTANTS: tuple[tuple[str, tuple[str, ...], Callable[[Float64], Float64]], ...] = (
    ("the tanh GELU with 2/pi without its root", ("gelu", "gelu_tanh"), tanh_gelu(root=2.0 / math.pi)),
    ("the tanh GELU with 0.04715 for 0.044715", ("gelu", "gelu_tanh"), tanh_gelu(cube=0.04715)),
    ("the tanh GELU with 0.44715 for 0.044715", ("gelu", "gelu_tanh"), tanh_gelu(cube=0.44715)),
    ("the tanh GELU with 0.0044715 for 0.044715", ("gelu", "gelu_tanh"), tanh_gelu(cube=0.0044715)),
    ("the tanh GELU without its cube", ("gelu", "gelu_tanh"), tanh_gelu(cube=0.0)),
    ("the tanh GELU with a root of 0.8", ("gelu", "gelu_tanh"), tanh_gelu(root=0.8)),
    ("the tanh GELU with a root of pi/2", ("gelu", "gelu_tanh"), tanh_gelu(root=math.sqrt(math.pi / 2.0))),
    ("the GELU without its factor 1/2", ("gelu", "gelu_tanh"), lambda h: 2.0 * elementwise("gelu")[0](h)),
    ("the tanh GELU without its factor 1/2", ("gelu", "gelu_tanh"), lambda h: 2.0 * tanh_gelu()(h)),
    ("the GELU with erf(h) for erf(h / sqrt 2)", ("gelu", "gelu_tanh"), lambda h: _erf_gelu(h, math.sqrt(2.0))),
    ("the GELU with erf(h / 2) for erf(h / sqrt 2)", ("gelu", "gelu_tanh"), lambda h: _erf_gelu(h, math.sqrt(0.5))),
    (
        "hard_sigmoid as 0.2 h + 0.5",
        ("sigmoid", "hard_sigmoid"),
        lambda h: np.clip(0.2 * h + 0.5, 0.0, 1.0),
    ),
    (
        "hard_swish with 0.2 h + 0.5",
        ("silu", "hard_swish", "gelu", "quick_gelu"),
        lambda h: h * np.clip(0.2 * h + 0.5, 0.0, 1.0),
    ),
    ("the cube for the square", ("relu2",), lambda h: np.maximum(h, 0.0) ** 3),
    ("h * |h| for relu(h)^2", ("relu2",), lambda h: h * np.abs(h)),
    ("the square without relu", ("relu2", "relu"), lambda h: h * h),
    ("|h| for relu(h)", ("relu", "relu2", "leaky_relu"), np.abs),
    ("relu of -h", ("relu",), lambda h: np.maximum(-h, 0.0)),
    ("min(h, 0) for max(h, 0)", ("relu",), lambda h: np.minimum(h, 0.0)),
    ("mish with softplus for tanh of softplus", ("mish",), lambda h: h * np.logaddexp(0.0, h)),
    ("mish with sigmoid for softplus", ("mish",), lambda h: h * np.tanh(0.5 + 0.5 * np.tanh(0.5 * h))),
    ("selu without its scale", ("selu",), lambda h: elementwise("selu")[0](h) / 1.0507009873554805),
    ("elu with exp(h) for exp(h) - 1", ("elu",), lambda h: np.where(h > 0, h, np.exp(np.minimum(h, 0.0)))),
    ("softmax over the hidden units", ("silu", "gelu", "relu", "sigmoid"), lambda h: _softmax(h)),
)


def _erf_gelu(h: Float64, by: float) -> Float64:
    """The GELU with its argument times a number under erf: gelu(z) / z gives the distribution."""
    z = by * h
    with np.errstate(all="ignore"):
        phi = np.where(z == 0.0, 0.5, elementwise("gelu")[0](z) / z)
    return h * phi


def _softmax(h: Float64) -> Float64:
    """Over the last axis."""
    e = np.exp(h - h.max(axis=-1, keepdims=True)) if h.size else h
    found: Float64 = e / e.sum(axis=-1, keepdims=True)
    return found


def acting(activation: Any) -> Callable[[Computation], Computation]:
    """The network with another activation."""
    return lambda of: replace(of, activation=activation)


def another_activation(meant: Meant) -> Iterator[Fault]:
    """One name in place of another, the GELUs and silu first; other constants; overflows of a naive exp."""
    for name in (*_NEAR, *(other for other in oracle.ACTIVATIONS if other not in _NEAR)):
        if name not in (meant.activation, "identity"):
            yield Fault(f"{name} where {meant.name} is meant", acting(name), name in (*_NEAR, "relu"))
    if meant.activation != "identity":
        yield Fault("no activation", acting("identity"), True)
    for says, names, function in CONSTANTS:
        if meant.activation in names:
            yield Fault(says, acting(function))
    if isinstance(meant.activation, str) and meant.activation not in ("relu", "relu2", "relu6", "identity"):
        for says, sign, times in (
            ("exp(h) overflows", 1.0, 1.0),
            ("exp(-h) overflows", -1.0, 1.0),
            ("exp(2 h) overflows", 1.0, 2.0),
            ("exp(-2 h) overflows", -1.0, 2.0),
        ):
            yield Fault(f"NaN of a naive formula: {says}", _naive(meant.activation, sign, times))


def _naive(activation: str, sign: float, times: float) -> Callable[[Computation], Computation]:
    """NaN where an exp in the dtype overflows, as in exp(h) / (1 + exp(h))."""

    def change(of: Computation) -> Computation:
        act, end = elementwise(activation)[0], math.log(of.largest) / times
        return replace(of, activation=lambda h: np.where(sign * h > end, np.nan, act(h)))

    return change


class _Clamped:
    """A ClippedGate with its clamps on other sides."""

    def __init__(self, gate: ClippedGate, *, gate_below: bool, linear: bool) -> None:
        self.gate_object, self.below, self.linear = gate, gate_below, linear

    def gate(self, g: Float64, u: Float64) -> Float64:
        """The hidden layer."""
        limit = np.inf if self.gate_object.limit is None else self.gate_object.limit
        if self.below:
            g = np.maximum(g, -limit)
        wide = self.gate_object if self.linear else replace(self.gate_object, limit=None)
        if not self.linear:
            g = np.minimum(g, limit)
        h: Float64 = np.asarray(wide.gate(g, u))
        return h


def another_clamp(meant: Meant) -> Iterator[Fault]:
    """The clamp of a gate missing or elsewhere, its alpha or offset ignored."""
    gate = meant.activation
    if not isinstance(gate, ClippedGate):
        return
    other: Literal["before", "after"] = "after" if gate.clip == "before" else "before"
    if gate.limit is not None:
        yield Fault("no clamp", acting(replace(gate, limit=None)))
        yield Fault(f"the gate clamped {other} its activation", acting(replace(gate, clip=other)))
        yield Fault("the gate clamped from below as well", acting(_Clamped(gate, gate_below=True, linear=True)))
        yield Fault("the linear branch not clamped", acting(_Clamped(gate, gate_below=False, linear=False)))
    if gate.alpha != 1.0:
        yield Fault("alpha ignored", acting(replace(gate, alpha=1.0)))
    if gate.offset != 0.0:
        yield Fault("the offset ignored", acting(replace(gate, offset=0.0)))
    if gate.alpha != 1.0 and gate.offset != 0.0:
        yield Fault("alpha and offset ignored", acting(replace(gate, alpha=1.0, offset=0.0)))


def another_place(meant: Meant) -> Iterator[Fault]:
    """The activation elsewhere, or once more."""
    act = meant.activation
    if hasattr(act, "gate") or act == "identity":
        return

    def after(of: Computation) -> Computation:
        return of.also("after", activated(act))

    yield Fault("activation after W2 as well", after)
    yield Fault("activation after W2 instead of before", lambda of: after(replace(of, activation="identity")))
    yield Fault("activation twice", lambda of: of.also("between", activated(act)))
    yield Fault("the activation of x before W1 as well", lambda of: of.also("before", activated(act)))
