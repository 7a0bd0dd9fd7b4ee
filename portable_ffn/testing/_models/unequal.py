"""In what two layers differ as they stand in their files: which weight, by how much; what stands around the weights."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from portable_ffn import Weights
from portable_ffn._activations.named import activation_name
from portable_ffn._arrays.dtype import REAL_FLOATING
from portable_ffn.testing._backends.arrays import Float64, held


@dataclass(frozen=True, slots=True)
class Unequal:
    """A weight that differs: its largest difference, where that is, and as a fraction of its largest number."""

    weight: str
    says: str
    largest: float
    place: tuple[int, ...]
    relative: float


def unequal(a: Weights, b: Weights, dtype: str) -> Iterator[Unequal]:
    """The weights, in float64, that differ by more than their rounding to a dtype."""
    for name, mine, other in zip(Weights._fields, a, b, strict=True):
        if mine is None and other is None:
            continue
        if mine is None or other is None:
            side = "B" if mine is None else "A"
            given = other if mine is None else mine
            largest, place = _largest(np.abs(given))
            yield Unequal(name, f"{name} only in {side}", largest, place, 1.0)
        elif mine.shape != other.shape:
            told = f"{name} has shape {mine.shape} in A and {other.shape} in B"
            yield Unequal(name, told, float("inf"), (), float("inf"))
        elif not equal(held(mine, dtype), held(other, dtype)):
            yield _difference(name, mine, other)


def equal(mine: Float64, other: Float64) -> bool:
    """Whether two arrays hold the same numbers, NaN where the other has NaN."""
    return np.array_equal(np.asarray(mine, dtype=np.float64), np.asarray(other, dtype=np.float64), equal_nan=True)


def _difference(name: str, mine: Float64, other: Float64) -> Unequal:
    """How one weight differs."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(mine - other)
    same = (mine == other) | (np.isnan(mine) & np.isnan(other))
    apart = np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))
    largest, place = _largest(apart)
    size = float(np.max(np.abs(mine), initial=0.0, where=np.isfinite(mine)))
    relative = largest / size if size else float("inf")
    rounded = next((dtype for dtype in REAL_FLOATING[::-1] if equal(held(mine, dtype), other)), None)
    told = f"{name} differs by up to {largest:.3g} at {place}, {100 * relative:.3g} % of its largest number"
    lone = np.isnan(mine) != np.isnan(other)
    if lone.any():
        first = tuple(int(i) for i in np.argwhere(lone)[0])
        told = f"{name} is NaN only in {'A' if np.isnan(mine[first]) else 'B'} at {first}"
    if rounded is not None:
        told += f": it is A's rounded to {rounded}"
    elif mine.ndim == 2 and mine.shape[0] == mine.shape[1] and equal(mine.T, other):
        told += ": it is A's transposed"
    return Unequal(name, told, largest, place, relative)


def _largest(sizes: Float64) -> tuple[float, tuple[int, ...]]:
    """The largest number and where it is."""
    if not sizes.size:
        return 0.0, ()
    place = tuple(int(i) for i in np.unravel_index(int(np.argmax(sizes)), sizes.shape))
    return float(sizes[place]), place


def around(a: Any, b: Any) -> Iterator[str]:
    """In what two networks of checkpoints differ beside their weights."""
    if a.activation != b.activation:
        yield f"the activation is {activation_name(a.activation)} in A and {activation_name(b.activation)} in B"
    for place, where in (("before", "before W1"), ("middle", "before W2"), ("after", "after W2")):
        yield from _norms(where, getattr(a, place), getattr(b, place))
    for name, told in (("residual", "the residual is added"), ("after_residual", "the last norm takes x + y")):
        if getattr(a, name) != getattr(b, name):
            yield f"{told} only in {'A' if getattr(a, name) else 'B'}"
    if a.scale != b.scale:
        yield f"the output is scaled by {a.scale:g} in A and {b.scale:g} in B"


def _norms(where: str, a: Any, b: Any) -> Iterator[str]:
    """In what two normalisations differ."""
    if a is None or b is None:
        if a is not b:
            yield f"the {(a or b).kind} normalisation {where} only in {'B' if a is None else 'A'}"
        return
    for name in ("kind", "eps"):
        if getattr(a, name) != getattr(b, name):
            yield f"the normalisation {where} has {name} {getattr(a, name)} in A and {getattr(b, name)} in B"
    for name in ("gamma", "beta"):
        mine, other = getattr(a, name), getattr(b, name)
        if (mine is None) != (other is None):
            yield f"the normalisation {where} has {name} only in {'B' if mine is None else 'A'}"
        elif mine is not None and mine.shape != other.shape:
            yield f"{name} of the normalisation {where} has shape {mine.shape} in A and {other.shape} in B"
        elif mine is not None and not equal(mine, other):
            apart = float(np.max(np.abs(np.asarray(mine, dtype=float) - np.asarray(other, dtype=float)), initial=0.0))
            yield f"{name} of the normalisation {where} differs by up to {apart:.3g}"
