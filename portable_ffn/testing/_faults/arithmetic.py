"""Faults of the arithmetic: products in too few bits, sums in half precision, dtypes that are not what they say.

Rounded operands leave a pattern, which is computed: an error is such a rounding where it has the size of the
simulated one and goes along with it. And the two faults of values: NaN hidden, everything scaled.
"""

from collections.abc import Iterator

import numpy as np

from portable_ffn import oracle
from portable_ffn._arrays.dtype import REAL_FLOATING
from portable_ffn.testing._backends.arrays import Float64, held
from portable_ffn.testing._faults.failure import Answer, Failure
from portable_ffn.testing._measure.compare import shares

Explained = Iterator[tuple[str, float]]


def _kept(values: Float64, bits: int) -> Float64:
    """The numbers with that many significant bits, rounded to nearest even; the range is not cut."""
    mantissa, exponent = np.frexp(values)
    rounded: Float64 = np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits)
    return rounded


def _goes_along(f: Failure, simulated: Float64) -> float | None:
    """How unlike the error is to a simulated one: 0 is the same pattern; None where it is another thing."""
    assert f.got is not None
    usable = np.isfinite(f.got) & np.isfinite(simulated) & np.isfinite(f.expected)
    error, model = (f.got - f.expected)[usable], (simulated - f.expected)[usable]
    size, wanted = (float(np.sqrt(np.sum(e * e))) for e in (error, model))
    if error.size < 8 or not 0.0 < wanted < np.inf or not wanted / 2.5 <= size <= 2.5 * wanted:
        return None
    alike = float(np.sum(error * model) / (size * wanted))
    return 1.0 - alike if alike > 0.6 else None


def coarse(f: Failure, bits: int) -> Float64:
    """The answer with operands rounded to that many bits before each product."""
    w = f.weights
    W1, V = (None if W is None else _kept(W, bits) for W in (w.W1, w.V))
    h, _ = oracle.hidden(_kept(f.x, bits), W1, w.b1, V, w.c, activation=f.activation, dtype=f.dtype)
    return _kept(h, bits) @ _kept(w.W2, bits) + (0.0 if w.b2 is None else w.b2)


def coarse_products(f: Failure) -> Explained:
    """Operands rounded to TF32's 11 significant bits, or to bfloat16's 8, before each product."""
    if f.got is None:
        return
    for says, y in coarse_answers(f):
        unlike = _goes_along(f, y)
        if unlike is not None:
            yield says, unlike


def coarse_answers(f: Failure) -> Iterator[tuple[str, Float64]]:
    """What coarse products give, in the dtypes whose operands they cut."""
    if f.dtype in ("float32", "float64"):
        for name, bits in (("TF32", 11), ("bfloat16", 8)):
            yield f"products in {name}", coarse(f, bits)


def narrow(f: Failure, name: str) -> Float64:
    """The answer with each sum kept in that dtype, one term after the other."""
    with np.errstate(all="ignore"):
        w = f.weights
        g = _summed(f.x, w.W1, w.b1, name)
        u = None if w.V is None else _summed(f.x, w.V, w.c, name)
        one = np.eye(1)
        flat = g.reshape(-1, 1)
        h, _ = oracle.hidden(
            np.concatenate([flat, np.zeros_like(flat) if u is None else u.reshape(-1, 1)], axis=1),
            np.concatenate([one, 0 * one]),
            None,
            None if u is None else np.concatenate([0 * one, one]),
            activation=f.activation,
            dtype=f.dtype,
        )
        return _summed(held(h.reshape(g.shape), name), w.W2, w.b2, name)


def narrow_sums(f: Failure) -> Explained:
    """Each sum kept in half precision, one term after the other."""
    if f.got is None or f.x.size == 0:
        return
    for name in narrower_sums(f.dtype):
        unlike = _goes_along(f, narrow(f, name))
        if unlike is not None:
            yield f"sums kept in {name}", unlike


def narrower_sums(dtype: str) -> tuple[str, ...]:
    """The half precisions that sums of a dtype may be kept in by mistake."""
    return tuple(name for name in ("float16", "bfloat16") if dtype in (name, "float32"))


def _summed(x: Float64, W: Float64, b: Float64 | None, dtype: str) -> Float64:
    """x W + b with a running sum of that dtype."""
    total = np.zeros((*x.shape[:-1], W.shape[1]))
    for k in range(W.shape[0]):
        total = held(total + x[..., k : k + 1] * W[k], dtype)
    return total if b is None else held(total + b, dtype)


def another_dtype(f: Failure) -> Explained:
    """Values that a narrower dtype holds, and within that one's bound."""
    if f.came in REAL_FLOATING and f.came != f.dtype:
        # A wider dtype is a fault of its own, but explains no error of the values.
        narrower = REAL_FLOATING.index(f.came) < REAL_FLOATING.index(f.dtype)
        yield f"{f.dtype} served as {f.came}", 0.0 if narrower else 1.0
    if f.got is None or f.got.size < 4:
        return
    for name in ("float32", "float16", "bfloat16"):
        narrower = REAL_FLOATING.index(name) < REAL_FLOATING.index(f.dtype) and not (
            f.dtype == "float16" and name == "bfloat16"
        )
        if not narrower:
            continue
        y, bound = oracle.feed_forward(f.x, *f.weights, activation=f.activation, dtype=name)
        inside = float(np.max(shares(f.got, y, bound), initial=0.0))
        if inside > 1.0:
            continue
        if np.array_equal(held(f.got, name), f.got, equal_nan=True):
            yield f"{f.dtype} served as {name}", 0.0
        elif name == "float32" and f.dtype == "float64":
            yield "float64 computed in float32", inside


def hidden_nan(f: Failure) -> Explained:
    """Numbers where NaN has to be, and all else right."""
    if f.got is None:
        return
    lost = np.isnan(f.expected) & ~np.isnan(f.got)
    others = shares(f.got, f.expected, f.bound)[~lost]
    if lost.any() and float(np.max(others, initial=0.0)) <= 1.0:
        yield "NaN hidden", 0.0


def scaled(f: Failure) -> Explained:
    """Everything times one constant, zero included."""
    if f.got is None:
        return
    usable = np.isfinite(f.got) & np.isfinite(f.expected) & np.isfinite(f.bound)
    got, y = f.got[usable], f.expected[usable]
    square = float(np.sum(y * y))
    if got.size < 4 or square == 0.0:
        return
    by = float(np.sum(got * y)) / square
    answer: Answer = (by * f.expected, max(abs(by), 1e-300) * f.bound)
    rest = f.worst(answer)
    matters = f._replace(got=answer[0]).worst((f.expected, f.bound)) > 1.0
    # The constant is itself measured, on values of which each may be off by its bound.
    if rest <= 2.0 and matters:
        yield ("zeros" if by == 0.0 else f"everything scaled by {by:.4g}"), rest
