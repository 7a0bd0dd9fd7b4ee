"""Faults of the formula: what a network gives that has one of them, by the oracle.

Each function yields the answers of a kind of fault, with what tells it from the others of its kind.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np

from portable_ffn import oracle
from portable_ffn._activations.gates import ClippedGate
from portable_ffn.testing._backends.arrays import Float64
from portable_ffn.testing._faults.failure import Answer, Failure

Answers = Iterator[tuple[str, Answer]]


def another_activation(f: Failure) -> Answers:
    """One name in place of another; the GELUs and silu first, since they are the ones that are confused."""
    if isinstance(f.activation, str):
        near = ("gelu", "gelu_tanh", "quick_gelu", "silu")
        for name in (*near, *(other for other in oracle.ACTIVATIONS if other not in near)):
            if name != f.activation:
                yield f"{name} where {f.activation} is meant", f.network(activation=name)


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


def another_clamp(f: Failure) -> Answers:
    """The clamp of a gate missing or elsewhere, its alpha or offset ignored."""
    gate = f.activation
    if not isinstance(gate, ClippedGate):
        return
    other: Literal["before", "after"] = "after" if gate.clip == "before" else "before"
    yield "no clamp", f.network(activation=replace(gate, limit=None))
    yield f"the gate clamped {other} its activation", f.network(activation=replace(gate, clip=other))
    yield "the gate clamped from below as well", f.network(activation=_Clamped(gate, gate_below=True, linear=True))
    yield "the linear branch not clamped", f.network(activation=_Clamped(gate, gate_below=False, linear=False))
    yield "alpha ignored", f.network(activation=replace(gate, alpha=1.0))
    yield "the offset ignored", f.network(activation=replace(gate, offset=0.0))
    yield "alpha and offset ignored", f.network(activation=replace(gate, alpha=1.0, offset=0.0))
    yield "silu alone", f.network(activation="silu")


def another_branch(f: Failure) -> Answers:
    """Gate and linear branch exchanged, or the halves of a fused matrix read in the other order."""
    w = f.weights
    if w.V is None:
        return
    yield "gate and linear branch swapped", f.network(W1=w.V, b1=w.c, V=w.W1, c=w.b1)
    if not hasattr(f.activation, "gate"):
        yield "the linear branch missing", f.network(V=None, c=None)
    fused = np.concatenate([w.W1, w.V], axis=1)
    bias = None if w.b1 is None or w.c is None else np.concatenate([w.b1, w.c])
    d_ff = w.d_ff
    order = np.arange(2 * d_ff)
    taken = {
        "halves read as interleaved": (order[0::2], order[1::2]),
        "interleaved columns read as halves": (
            order.reshape(2, -1).T.ravel()[:d_ff],
            order.reshape(2, -1).T.ravel()[d_ff:],
        ),
    }
    for said, (first, second) in taken.items():
        b1, c = (w.b1, w.c) if bias is None else (bias[first], bias[second])
        yield said, f.network(W1=fused[:, first], V=fused[:, second], b1=b1, c=c)


def transposed(f: Failure) -> Answers:
    """A weight read along its other axis: as a transpose where it is square, else in another order of memory."""
    for names in (("W1",), ("W2",), ("V",), ("W1", "W2"), ("W1", "V"), ("W1", "W2", "V")):
        arrays = {name: getattr(f.weights, name) for name in names}
        if any(array is None or array.size < 2 for array in arrays.values()):
            continue
        square = all(array.shape[0] == array.shape[1] for array in arrays.values())
        turned = {name: array.T.reshape(array.shape) for name, array in arrays.items()}
        said = f"{' and '.join(names)} transposed"
        yield said if square else f"{said} in memory but not in shape", f.network(**turned)


def another_bias(f: Failure) -> Answers:
    """Biases missing, exchanged, or added at another place."""
    w = f.weights
    given = [name for name in ("b1", "b2", "c") if getattr(w, name) is not None]
    for name in given:
        yield f"{name} missing", f.network(**{name: None})
    if len(given) > 1:
        yield "all biases missing", f.network(**dict.fromkeys(given))
    if w.b1 is not None and w.b2 is not None and w.b1.shape == w.b2.shape:
        yield "b1 and b2 swapped", f.network(b1=w.b2, b2=w.b1)
    if w.b1 is not None and w.c is not None:
        yield "b1 and c swapped", f.network(b1=w.c, c=w.b1)
    if w.b1 is not None:
        h, error = f.hidden(b1=None)
        yield "b1 added after the activation instead of before", _second(f, h + w.b1, error)
    if w.b2 is not None and w.b2.shape == f.x.shape[-1:]:
        yield "b2 added to x instead of to the output", f.network(x=f.x + w.b2, b2=None)


def _second(f: Failure, h: Float64, error: Float64) -> Answer:
    """The second product of a hidden layer that is known with an error."""
    y, bound = oracle.hidden(h, f.weights.W2, f.weights.b2, activation="identity", dtype=f.rounding)
    return y, bound + error @ np.abs(f.weights.W2)


def another_place(f: Failure) -> Answers:
    """The activation after W2."""
    w = f.weights
    if hasattr(f.activation, "gate") or w.W2.shape[1] > 512:
        return
    unit = np.eye(w.W2.shape[1])
    for said, (y, bound) in {
        "activation after W2 as well": (f.expected, f.bound),
        "activation after W2 instead of before": f.network(activation="identity"),
    }.items():
        after, rounding = oracle.hidden(y, unit, activation=f.activation, dtype=f.rounding)
        yield said, (after, rounding + 2.0 * bound)  # no activation here is steeper than 2 but relu2
    yield "no activation", f.network(activation="identity")


def residual(f: Failure) -> Answers:
    """The residual connection added, or taken away."""
    if f.x.shape == f.expected.shape:
        unit = oracle.unit_roundoff(f.rounding)
        more = f.bound + 2.0 * unit * (np.abs(f.x) + np.abs(f.expected))
        yield "the residual x added", (f.expected + f.x, more)
        yield "the residual x missing", (f.expected - f.x, more)


def _standardised(x: Float64, eps: float) -> Float64:
    """Layer normalisation without its scale."""
    centred = x - x.mean(axis=-1, keepdims=True)
    scaled: Float64 = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    return scaled


def _by_rms(x: Float64, eps: float) -> Float64:
    """RMS normalisation without its scale."""
    scaled: Float64 = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    return scaled


def norm_inside(f: Failure) -> Answers:
    """A normalisation of x before, or of y after; which eps is told apart where it can be."""
    if f.x.shape[-1] < 2:
        return
    for name, norm in (("layer", _standardised), ("RMS", _by_rms)):
        for eps in (1e-5, 1e-6, 1e-12, 1e-3):
            x = norm(f.x, eps)
            y, bound = f.network(x=x)
            rounding = 8.0 * oracle.unit_roundoff(f.rounding)
            moved = np.abs(f.network(x=x * (1 + rounding))[0] - y)
            yield f"{name} normalisation of x inside, eps {eps:g}", (y, bound + moved)


def another_order(f: Failure) -> Answers:
    """Positions permuted, averaged, or mixed with features."""
    if f.x.ndim < 2 or f.x.size == 0:
        return
    shape = f.x.shape
    mixed = {
        "positions and features exchanged in memory": np.reshape(np.moveaxis(f.x, -1, 0), shape),
        "x read in the other order of memory": np.reshape(f.x.ravel(order="F"), shape),
    }
    if f.x.ndim > 2:
        mixed["the first two axes of x exchanged in memory"] = np.reshape(np.swapaxes(f.x, 0, 1), shape)
    for said, x in mixed.items():
        if not np.array_equal(x, f.x, equal_nan=True):
            yield said, f.network(x=x)
    mean = np.broadcast_to(f.x.mean(axis=tuple(range(f.x.ndim - 1)), keepdims=True), shape)
    yield "x averaged over the positions", f.network(x=mean)
    found = _permutation(f)
    if found is not None:
        yield "rows permuted", found


def _permutation(f: Failure) -> Answer | None:
    """The expected rows in the order in which they came, where each came once."""
    if f.got is None or f.got.shape != f.expected.shape:
        return None
    width = f.expected.shape[-1]
    got, y, bound = (array.reshape(-1, width) for array in (f.got, f.expected, f.bound))
    if not 1 < len(got) <= 512:
        return None
    near = [np.flatnonzero((np.abs(y - row) <= bound).all(axis=1)) for row in got]
    order = [int(rows[0]) if rows.size else -1 for rows in near]
    if sorted(order) != list(range(len(order))):
        return None
    return y[order].reshape(f.expected.shape), bound[order].reshape(f.expected.shape)


def truncated(f: Failure) -> Answers:
    """Numbers turned to integers on the way."""
    yield "x truncated to integers", f.network(x=np.trunc(f.x))
    w = f.weights
    yield (
        "the weights truncated to integers",
        f.network(**{name: np.trunc(array) for name, array in w._asdict().items() if array is not None}),
    )
