"""How a layer's matrices are read from what is on disk: which tensor, which slice of it, which way round."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

# Kinds of normalisation: of a layer, by the root of the mean square, with 1 + gamma, of x (1 + gamma), by the norm
# itself, and gamma x + beta alone.
NORMS = ("layer", "rms", "rms1p", "rms_of_scaled", "l2", "affine")


class Readable(Protocol):
    """What a recipe asks of a store."""

    def read_logical(self, name: str, row: int | None = None) -> np.ndarray: ...


@dataclass(frozen=True, slots=True)
class Part:
    """One matrix (in, out) or vector, as a slice of one tensor on disk.

    `out_first` says that the tensor has its outputs first, as torch's Linear has; `expert` is an index into a
    stack, `rows` a range of the first axis (experts packed into one matrix), `half` one half of the outputs, and
    `groups` the number of groups of a 1 x 1 convolution.
    """

    key: str
    out_first: bool = False
    expert: int | None = None
    rows: tuple[int, int] | None = None
    half: str | None = None
    groups: int = 1

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """The shape that `read` gives of a tensor of this shape; None where it can't be sliced so."""
        if self.expert is not None:
            if not shape or not 0 <= self.expert < shape[0]:
                return None
            shape = shape[1:]
        if self.rows is not None:
            if not shape or not 0 <= self.rows[0] <= self.rows[1] <= shape[0]:
                return None
            shape = (self.rows[1] - self.rows[0], *shape[1:])
        while len(shape) > 2 and shape[-1] == 1:
            shape = shape[:-1]
        if self.groups > 1:
            if len(shape) != 2 or shape[0] % self.groups:
                return None
            shape = (shape[0], shape[1] * self.groups)
        turned = self.out_first and len(shape) == 2
        if self.half is not None:
            outputs = 0 if turned else -1
            if len(shape) not in (1, 2) or shape[outputs] % 2:
                return None
            halved = shape[outputs] // 2
            shape = (halved, *shape[1:]) if turned else (*shape[:-1], halved)
        return shape[::-1] if turned else shape

    def read(self, store: Readable) -> np.ndarray:
        """The slice as a view of the file wherever slicing can say it."""
        a = store.read_logical(self.key, self.expert)
        if self.rows is not None:
            a = a[self.rows[0] : self.rows[1]]
        while a.ndim > 2 and a.shape[-1] == 1:
            a = a[..., 0]
        if self.groups > 1:
            a = block_diagonal(a, self.groups)
        if self.half is not None:
            a = _half(a if self.out_first or a.ndim == 1 else a.T, self.half)
            return a if a.ndim == 1 else a.T
        return a.T if self.out_first and a.ndim == 2 else a


@dataclass(frozen=True, slots=True)
class NormRecipe:
    """A normalisation inside the network: kind "layer", "rms", "rms1p" or "l2", its tensors and its eps."""

    kind: str
    gamma: str | None
    beta: str | None
    eps: float


@dataclass(frozen=True, slots=True)
class BatchNorm:
    """A BatchNorm in evaluation: a scale and a shift of each channel, folded into the matrix beside it.

    `after` is True where it follows the matrix `target` (W1 or W2), False where it precedes it.
    """

    target: str
    stem: str
    eps: float
    after: bool


@dataclass(frozen=True, slots=True)
class Scale:
    """A number, or a tensor, that multiplies the outputs of `target` (W1, V or W2)."""

    target: str
    number: float = 1.0
    key: str | None = None


@dataclass(frozen=True, slots=True)
class LowRank:
    """A low-rank addition up(down(x)) to the outputs of the whole fused matrix, `factor` times."""

    down: str
    up: str
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Divisor:
    """A tensor by which the hidden layer is divided: AutoAWQ's ScaledActivation."""

    key: str


Fold = BatchNorm | Scale | LowRank | Divisor


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that is read for one network, and in what order it is applied.

    y = scale * after(middle(hidden(before(x))) W2 + b2) + x if residual; `after_residual` says that the last
    normalisation takes the sum with x.
    """

    W1: Part
    b1: Part | None
    W2: Part
    b2: Part | None
    V: Part | None = None
    c: Part | None = None
    before: NormRecipe | None = None
    middle: NormRecipe | None = None
    after: NormRecipe | None = None
    after_residual: bool = False
    residual: bool = False
    scale: float = 1.0
    folds: tuple[Fold, ...] = ()
    learned: tuple[str, ...] = field(default=())

    def keys(self) -> Iterator[str]:
        """The tensors that are read, each once."""
        seen: dict[str, None] = {}
        for part in (self.W1, self.b1, self.V, self.c, self.W2, self.b2):
            if part is not None:
                seen[part.key] = None
        for norm in (self.before, self.middle, self.after):
            if norm is not None:
                seen.update(dict.fromkeys(k for k in (norm.gamma, norm.beta) if k))
        for fold in self.folds:
            seen.update(dict.fromkeys(fold_keys(fold)))
        seen.update(dict.fromkeys(self.learned))
        return iter(seen)


BATCH_NORM_LEAVES = ("weight", "bias", "running_mean", "running_var")


def fold_keys(fold: Fold) -> tuple[str, ...]:
    """The tensors that a fold reads."""
    if isinstance(fold, BatchNorm):
        return tuple(f"{fold.stem}.{leaf}" for leaf in BATCH_NORM_LEAVES)
    if isinstance(fold, LowRank):
        return fold.down, fold.up
    if isinstance(fold, Divisor):
        return (fold.key,)
    return (fold.key,) if fold.key else ()


def _half(a: np.ndarray, half: str) -> np.ndarray:
    """One half of the first axis."""
    n = a.shape[0]
    if half == "first":
        return a[: n // 2]
    if half == "second":
        return a[n // 2 :]
    return a[0::2] if half == "even" else a[1::2]


def block_diagonal(a: np.ndarray, groups: int) -> np.ndarray:
    """The dense matrix (out, in) of a grouped 1 x 1 convolution's (out, in / groups)."""
    out, width = a.shape
    whole: np.ndarray[Any, Any] = np.zeros((out, width * groups), dtype=a.dtype)
    rows = out // groups
    for g in range(groups):
        whole[g * rows : (g + 1) * rows, g * width : (g + 1) * width] = a[g * rows : (g + 1) * rows]
    return whole
