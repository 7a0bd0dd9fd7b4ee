"""Faults of the weights' layout and scale, and of what stands around the network."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from portable_ffn.testing._backends.arrays import Float64, held
from portable_ffn.testing._faults.computation import Computation, Step
from portable_ffn.testing._faults.row import Fault, Meant
from portable_ffn.testing._faults.steps import normalised, scaled, with_x

Change = Callable[[Computation], Computation]


def another_layout(meant: Meant) -> Iterator[Fault]:
    """A weight read along its other axis: as a transpose where it is square, else in another order of memory."""
    names = ("W1", "W2", "V") if meant.gated else ("W1", "W2")
    several = [(name,) for name in names] + ([("W1", "V")] if meant.gated else []) + [("W1", "W2"), names]
    for some in dict.fromkeys(several):
        said = " and ".join(some)
        yield Fault(f"{said} transposed", _turned(some, lambda W: W.T if W.shape[0] == W.shape[1] else W), True)
        yield Fault(f"{said} transposed in memory but not in shape", _turned(some, lambda W: W.T.reshape(W.shape)))
    for name in names:
        yield Fault(f"the rows of {name} in reverse order", _turned((name,), lambda W: W[::-1]))
        yield Fault(f"the columns of {name} in reverse order", _turned((name,), lambda W: W[:, ::-1]))
        yield Fault(f"{name} ignored: ones in its place", _turned((name,), np.ones_like))
        yield Fault(f"|{name}| for {name}", _turned((name,), np.abs))
        yield Fault(f"-{name} for {name}", _turned((name,), np.negative))
    yield Fault("the weights truncated to integers", _turned((*names, *meant.taken), np.trunc))
    for dtype in ("bfloat16", "float16", "float32"):
        yield Fault(f"weights rounded to {dtype}", _turned((*names, *meant.taken), partial(held, dtype=dtype)))
        yield Fault(f"x rounded to {dtype}", partial(_x_in, dtype))


def _x_in(dtype: str, of: Computation) -> Computation:
    """With x rounded to a dtype."""
    return of.having(x=held(of.x, dtype))


def _turned(names: tuple[str, ...], function: Callable[[Float64], Float64]) -> Change:
    """Some arrays through a function."""

    def change(of: Computation) -> Computation:
        arrays = {name: getattr(of, name) for name in dict.fromkeys(names)}
        return of.having(**{name: function(a) for name, a in arrays.items() if a is not None and a.size})

    return change


def another_scale(meant: Meant) -> Iterator[Fault]:
    """Weights scaled by a root of their sizes, as an initialisation or an attention does."""
    sides = {"W1": ("d_model", "d_ff"), "V": ("d_model", "d_ff"), "W2": ("d_ff", "its columns")}
    for name in ("W1", "W2", *(("V",) if meant.gated else ())):
        for axis, side in enumerate(sides[name]):
            for said, power in (("1/sqrt({})", -0.5), ("1/{}", -1.0), ("sqrt({})", 0.5)):
                change = _turned((name,), partial(_by_side, axis=axis, power=power))
                yield Fault(f"{name} scaled by {said.format(side)}", change, (axis, power) == (0, -0.5))
    for said, power in (("sqrt(d_model)", 0.5), ("1/sqrt(d_model)", -0.5)):
        yield Fault(f"the output scaled by {said}", partial(_by_width, "after", power))
        if meant.gated:  # else it is W1 that is scaled
            yield Fault(f"x scaled by {said}", partial(_by_width, "before", power))


def _by_side(W: Float64, axis: int, power: float) -> Float64:
    """A matrix times a power of one of its sizes."""
    scaled_by: Float64 = W * float(W.shape[axis]) ** power
    return scaled_by


def _by_width(place: str, power: float, of: Computation) -> Computation:
    """What is there, scaled by a power of d_model."""
    return of.also(place, scaled(float(of.x.shape[-1]) ** power))


def _doing(place: str, *steps: Step) -> Change:
    """More done at a place."""
    return lambda of: of.also(place, *steps)


def around(meant: Meant) -> Iterator[Fault]:
    """The residual, and normalisations in front, between, behind; numbers turned to integers."""
    after = partial(_doing, "after")
    yield Fault("the residual x added", after(with_x(1.0)), True)
    yield Fault("the residual x missing", after(with_x(-1.0)))
    yield Fault("a half step and the residual: x + f(x)/2", after(scaled(0.5), with_x(1.0)), True)
    yield Fault("the residual added to twice the output", after(scaled(2.0), with_x(1.0)))
    yield Fault("zeros", after(scaled(0.0)))
    yield Fault("everything scaled by -1", after(scaled(-1.0)), True)
    yield Fault("everything scaled by 0.5", after(scaled(0.5)), True)
    yield Fault("everything scaled by 2", after(scaled(2.0)), True)
    yield Fault("x truncated to integers", lambda of: of.having(x=np.trunc(of.x)))
    yield Fault("x rounded to integers", lambda of: of.having(x=np.rint(of.x)))
    for kind in ("layer", "RMS"):
        for eps in (1e-5, 1e-6, 1e-12, 1e-3, 1e-8):
            norm, usual = normalised(kind, eps), eps == (1e-5 if kind == "layer" else 1e-6)
            for place, said in (("before", "x inside"), ("between", "the hidden layer"), ("after", "the output")):
                yield Fault(f"{kind} normalisation of {said}, eps {eps:g}", _doing(place, norm), usual)
            yield Fault(f"{kind} normalisation of x + f(x), eps {eps:g}", after(with_x(1.0), norm))
