"""Faults of positions and tiles: rows mixed up, and what is lost of an axis that no tile divides."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from portable_ffn.oracle._bound import growth
from portable_ffn.testing._backends.arrays import Float64
from portable_ffn.testing._faults.computation import Answer, Computation
from portable_ffn.testing._faults.row import Fault, Meant
from portable_ffn.testing._faults.steps import cut

Change = Callable[[Computation], Computation]
TILES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
ENDS = (16, 32, 64, 100, 128, 200, 256, 512, 1000, 1024)


def _x(function: Callable[[Float64], Float64]) -> Change:
    """Another x of the same shape."""
    return lambda of: of if of.x.size == 0 else of.having(x=np.reshape(function(of.x), of.x.shape))


def _averaged(of: Computation, before_features: bool) -> Computation:
    """Averages over the positions in place of x: over all of them, or over the axis before the features."""
    if of.x.size == 0:
        return of
    axis = -2 if before_features else tuple(range(of.x.ndim - 1))

    def step(of: Computation, v: Float64, e: Float64) -> Answer:
        def mean(a: Float64) -> Float64:
            return np.broadcast_to(a.mean(axis=axis, keepdims=True), a.shape)

        n = v.shape[-2] if before_features else v.size // v.shape[-1]
        return mean(v), mean(e) + of.unit * (growth(n) + 1.0) * mean(np.abs(v))

    return of.also("before", step)


MIXED: tuple[tuple[str, int, Callable[[Float64], Float64]], ...] = (
    ("positions and features exchanged in memory", 2, lambda x: np.moveaxis(x, -1, 0)),
    ("x read in the other order of memory", 2, lambda x: x.ravel(order="F")),
    ("the first two axes of x exchanged in memory", 3, lambda x: np.swapaxes(x, 0, 1)),
    ("the second and third axis of x exchanged in memory", 4, lambda x: np.swapaxes(x, 1, 2)),
    ("the last two axes of x exchanged in memory", 3, lambda x: np.swapaxes(x, -1, -2)),
    ("the first position for all of them", 2, lambda x: np.broadcast_to(x[:1], x.shape)),
    ("positions shifted by one, round", 2, lambda x: np.roll(x, 1, axis=-2)),
    ("positions shifted back by one, round", 2, lambda x: np.roll(x, -1, axis=-2)),
    ("positions in reverse order", 2, lambda x: x[::-1]),
    ("the features of x in reverse order", 1, lambda x: x[..., ::-1]),
)  # fmt: skip


def mixed(meant: Meant) -> Iterator[Fault]:
    """Positions mixed with each other or with features, in an x of any shape or of two axes alone."""
    changes = [(says, least, _x(function)) for says, least, function in MIXED]
    changes += [("x averaged over the positions", 2, partial(_averaged, before_features=False))]
    changes += [("x averaged over the axis before the features", 3, partial(_averaged, before_features=True))]
    for says, least, change in changes:
        yield Fault(says, _axes(least, 99, change))
        if least == 2:
            yield Fault(f"{says}, in an x of two axes alone", _axes(2, 2, change))
            yield Fault(f"{says}, in an x of three axes or more", _axes(3, 99, change))


def _axes(least: int, most: int, change: Change) -> Change:
    """A change for some numbers of axes."""
    return lambda of: change(of) if least <= of.x.ndim <= most else of


def lost(meant: Meant) -> Iterator[Fault]:
    """What is left over by tiles, or lies beyond an end, taken for zero."""
    for tile in TILES:
        yield Fault(f"hidden units beyond the last whole tile of {tile} lost", _hidden(_whole(tile)))
        yield Fault(f"features of x beyond the last whole tile of {tile} lost", _features(_whole(tile)))
        yield Fault(f"outputs beyond the last whole tile of {tile} are zero", _outputs(_whole(tile)))
        yield Fault(f"positions beyond the last whole tile of {tile} are zero", _rows(_whole(tile)))
    for end in ENDS:
        yield Fault(f"hidden units beyond {end} lost", _hidden(_up_to(end)))
        yield Fault(f"features of x beyond {end} lost", _features(_up_to(end)))
        yield Fault(f"positions beyond {end} are zero", _rows(_up_to(end)))
    yield Fault("the second half of the hidden units lost", _hidden(lambda n: n - n // 2))
    yield Fault("the second half of the hidden units lost, the middle one too", _hidden(lambda n: n // 2))
    yield Fault("the first half of the hidden units lost", _hidden(lambda n: n // 2, first=True))
    yield Fault("the last hidden unit lost", _hidden(lambda n: max(n - 1, 0)))
    yield Fault("the first hidden unit lost", _hidden(lambda n: min(n, 1), first=True))
    yield Fault("every second hidden unit lost", lambda of: of.also("between", cut(_even)))
    yield Fault("the last feature of x lost", _features(lambda n: max(n - 1, 0)))
    yield Fault("the second half of the features of x lost", _features(lambda n: n // 2))
    yield Fault("the second half of the positions is zero", _rows(lambda n: n - n // 2))
    yield Fault("the second half of the positions is zero, the middle one too", _rows(lambda n: n // 2))
    yield Fault("the last position is zero", _rows(lambda n: max(n - 1, 0)))
    yield Fault("the last output is zero", _outputs(lambda n: max(n - 1, 0)))
    yield Fault("the second half of the outputs is zero", _outputs(lambda n: n // 2))


def _up_to(end: int) -> Callable[[int], int]:
    """What lies before an end."""
    return lambda n: min(n, end)


def _whole(tile: int) -> Callable[[int], int]:
    """What whole tiles cover."""
    return lambda n: n // tile * tile


def _even(v: Float64) -> Float64:
    """A mask of every second number."""
    return np.broadcast_to((np.arange(v.shape[-1]) % 2 == 0).astype(float), v.shape)


def _last_axis(keep: Callable[[int], int], first: bool = False) -> Callable[[Float64], Float64]:
    """A mask of the first numbers of the last axis, or of all but them."""

    def mask(v: Float64) -> Float64:
        there = np.arange(v.shape[-1]) < keep(v.shape[-1])
        return np.broadcast_to((~there if first else there).astype(float), v.shape)

    return mask


def _hidden(keep: Callable[[int], int], first: bool = False) -> Change:
    """Hidden units that don't reach W2."""
    return lambda of: of.also("between", cut(_last_axis(keep, first)))


def _features(keep: Callable[[int], int]) -> Change:
    """Features of x that don't reach W1."""
    return lambda of: of.also("before", cut(_last_axis(keep)))


def _outputs(keep: Callable[[int], int]) -> Change:
    """Outputs that stay zero."""
    return lambda of: of.also("after", cut(_last_axis(keep)))


def _rows(keep: Callable[[int], int]) -> Change:
    """Positions, counted in the order of memory, that stay zero."""

    def mask(v: Float64) -> Float64:
        n = v.size // v.shape[-1] if v.shape[-1] else 0
        there = (np.arange(n) < keep(n)).astype(float)
        return np.broadcast_to(there.reshape(*v.shape[:-1], 1), v.shape)

    return lambda of: of if of.x.size == 0 else of.also("after", cut(mask))
