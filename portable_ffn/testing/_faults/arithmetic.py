"""Faults of the arithmetic: products in too few bits, sums in half precision, dtypes that are not what they say.

Rounded operands leave a pattern, which is simulated: an error is such a rounding where it has the size of the
simulated one and goes along with it, in each call that fails.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from portable_ffn import oracle
from portable_ffn._arrays.dtype import REAL_FLOATING
from portable_ffn.testing._backends.arrays import Float64, held
from portable_ffn.testing._faults.computation import Computation, elementwise
from portable_ffn.testing._faults.failure import Evidence
from portable_ffn.testing._faults.steps import plain
from portable_ffn.testing._measure.compare import shares

_ENOUGH = 8  # values, before they have a pattern


def kept(values: Float64, bits: int) -> Float64:
    """The numbers with that many significant bits, rounded to nearest even; the range is not cut."""
    mantissa, exponent = np.frexp(values)
    rounded: Float64 = np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits)
    return rounded


def _coarse(of: Computation, bits: int) -> Float64:
    """Operands rounded to that many bits before each product."""
    cut = plain(lambda v: kept(v, bits))
    W1, W2 = kept(of.W1, bits), kept(of.W2, bits)
    V = None if of.V is None else kept(of.V, bits)
    return of.having(x=kept(of.x, bits), W1=W1, W2=W2, V=V).also("between", cut).answer()[0]


def _quantised(of: Computation, axis: int | None) -> Float64:
    """With weights in int8."""
    W1, W2 = _int8(of.W1, axis), _int8(of.W2, axis)
    return of.having(W1=W1, W2=W2, V=None if of.V is None else _int8(of.V, axis)).answer()[0]


def _int8(W: Float64, axis: int | None) -> Float64:
    """Symmetric int8 with the largest number at 127."""
    scale = np.max(np.abs(W), axis=axis, keepdims=True, initial=0.0) / 127.0
    with np.errstate(all="ignore"):
        rounded: Float64 = np.where(scale > 0.0, np.rint(W / scale) * scale, W)
    return rounded


def _hidden_in(of: Computation, name: str) -> Float64:
    """The hidden layer rounded to a dtype."""
    return of.also("between", plain(lambda v: held(v, name))).answer()[0]


def _all_in(of: Computation, name: str) -> Float64:
    """Everything rounded to a dtype, each step once."""
    arrays = {field: getattr(of, field) for field in ("x", "W1", "b1", "W2", "b2", "V", "c")}
    cut = plain(lambda v: held(v, name))
    rounded = of.having(**{field: held(a, name) for field, a in arrays.items() if a is not None})
    for place in ("gate", "linear", "between", "after"):
        rounded = rounded.also(place, cut)
    return rounded.answer()[0]


def narrow(of: Computation, name: str) -> Float64:
    """The answer with each sum kept in that dtype, one term after the other."""
    with np.errstate(all="ignore"):
        g = _summed(of.x, of.W1, of.b1, name)
        u = None if of.V is None else _summed(of.x, of.V, of.c, name)
        if hasattr(of.activation, "gate"):
            h = np.asarray(of.activation.gate(g, u), dtype=np.float64)
        else:
            h = elementwise(of.activation)[0](g)
            h = h if u is None else h * u
        return _summed(held(h, name), of.W2, of.b2, name)


def _summed(x: Float64, W: Float64, b: Float64 | None, dtype: str) -> Float64:
    """The affine map x W + b with a running sum of that dtype."""
    total = np.zeros((*x.shape[:-1], W.shape[1]))
    for k in range(W.shape[0]):
        total = held(total + x[..., k : k + 1] * W[k], dtype)
    return total if b is None else held(total + b, dtype)


def simulations(dtype: str) -> Iterator[tuple[str, Callable[[Computation], Float64]]]:
    """What can be computed in too few bits where arrays are of a dtype."""
    if dtype in ("float32", "float64"):
        for name, bits in (("TF32", 11), ("bfloat16", 8)):
            yield f"products in {name}", partial(_coarse, bits=bits)
        for name in ("float16", "bfloat16"):
            yield f"the hidden layer rounded to {name}", partial(_hidden_in, name=name)
            yield f"everything rounded to {name}", partial(_all_in, name=name)
    if dtype == "float16":
        yield "everything rounded to bfloat16", partial(_all_in, name="bfloat16")
        yield "the hidden layer rounded to bfloat16", partial(_hidden_in, name="bfloat16")
    if dtype == "float64":
        yield "the hidden layer rounded to float32", partial(_hidden_in, name="float32")
    for axis, said in ((None, "one scale a matrix"), (0, "one scale a column"), (1, "one scale a row")):
        yield f"weights in int8, {said}", partial(_quantised, axis=axis)
    for name in ("float16", "bfloat16"):
        if dtype in (name, "float32"):
            yield f"sums kept in {name}", partial(narrow, name=name)


def patterns(evidence: list[Evidence]) -> list[tuple[float, str]]:
    """The simulations that go along with each call that fails, the most alike first."""
    found = []
    dtype = evidence[0].dtype
    for says, simulate in simulations(dtype):
        alike = [_alike(one, simulate(one.meant)) for one in evidence]
        told = [value for value in alike if value is not None]
        if told and min(told) > 0.0 and max(told) > 0.5:
            found.append((float(np.mean([value for value in told if value < 2.0] or [0.0])), says))
    return sorted(found, reverse=True)


def _alike(one: Evidence, simulated: Float64) -> float | None:
    """How alike an error is to a simulated one, 1 at most; 0 where it is another thing; None where nothing is told."""
    assert one.got is not None
    usable = np.isfinite(one.got) & np.isfinite(simulated) & np.isfinite(one.expected) & np.isfinite(one.bound)
    error, model, bound = (a[usable] for a in (one.got - one.expected, simulated - one.expected, one.bound))
    if error.size == 0:
        return None
    largest = float(np.max(np.abs(model) / np.maximum(bound, 1e-300), initial=0.0))
    if not one.fails:
        return 0.0 if largest > 3.0 else None
    if not usable[one.outside].any():
        return None
    top = float(max(np.max(np.abs(error)), np.max(np.abs(model)))) or 1.0
    error, model = error / top, model / top  # whose squares are finite near overflow too
    size, wanted = (float(np.sqrt(np.sum(e * e))) for e in (error, model))
    if not 0.0 < wanted < np.inf or not wanted / 2.5 <= size <= 2.5 * wanted:
        return 0.0 if largest > 1.0 or error.size >= _ENOUGH else None
    if error.size < _ENOUGH:
        return None
    alike = float(np.sum(error * model) / (size * wanted))
    return alike if alike > 0.6 else 0.0


def another_dtype(evidence: list[Evidence]) -> str:
    """Values that a narrower dtype holds, each within that one's bound; "" where that isn't so."""
    dtype = evidence[0].dtype
    came = [one for one in evidence if one.got is not None and one.got.size]
    if sum(int(np.count_nonzero(one.got)) for one in came if one.got is not None) < _ENOUGH:
        return ""
    for name in ("float32", "float16", "bfloat16"):
        if REAL_FLOATING.index(name) >= REAL_FLOATING.index(dtype) or (dtype, name) == ("float16", "bfloat16"):
            continue
        if all(_holds(one, name) for one in came) and _within(came, name):
            return f"{dtype} served as {name}"
    if dtype == "float64" and _within(came, "float32") and _is_rounding(came):
        return "float64 computed in float32"
    return ""


def _holds(one: Evidence, name: str) -> bool:
    """Whether a dtype holds every value that came."""
    assert one.got is not None
    return np.array_equal(held(one.got, name), one.got, equal_nan=True)


def _within(evidence: list[Evidence], name: str) -> bool:
    """Whether all is right as another dtype would have it."""
    for one in evidence:
        assert one.got is not None
        y, bound = oracle.feed_forward(one.x, *one.weights, activation=one.activation, dtype=name)
        if float(np.max(shares(one.got, y, bound), initial=0.0)) > 1.0:
            return False
    return True


def _is_rounding(evidence: list[Evidence]) -> bool:
    """Whether errors look like those of roundings: of their size everywhere, and with nothing smooth about them.

    A formula that is only good to seven digits errs in the same way at neighbouring points.
    """
    told = False
    for one in evidence:
        if not one.fails:
            continue
        assert one.got is not None
        usable = np.isfinite(one.got) & np.isfinite(one.expected) & np.isfinite(one.bound)
        error = (one.got - one.expected)[usable]
        relative = error / np.maximum(np.abs(one.expected[usable]), 1e-300)
        if error.size < _ENOUGH:
            continue
        order = np.argsort(one.expected[usable])
        along = relative[order] - relative.mean()
        power = float(np.sum(along * along))
        if power and error.size >= 128 and float(np.sum(along[1:] * along[:-1])) / power > 0.6:
            return False
        told = told or bool(np.median(np.abs(relative[relative != 0.0])) > 2.0**-31) if np.any(relative) else told
    return told


def hidden_nan(one: Evidence) -> bool:
    """Whether there are numbers where NaN has to be."""
    return one.got is not None and bool(np.any(np.isnan(one.expected) & ~np.isnan(one.got)))


def permuted(evidence: list[Evidence]) -> bool:
    """Whether each call that fails gave the rows that are meant in another order."""
    failed = [one for one in evidence if one.fails]
    return bool(failed) and all(_permutation(one) for one in failed)


def _permutation(one: Evidence) -> bool:
    """Whether the rows that came are those expected, each once, in another order."""
    assert one.got is not None
    width = one.expected.shape[-1]
    got, y, bound = (array.reshape(-1, width) for array in (one.got, one.expected, one.bound))
    if not 1 < len(got) <= 512 or width < 2:
        return False
    with np.errstate(all="ignore"):
        near = [np.flatnonzero(((np.abs(y - row) <= bound) | (np.isnan(y) & np.isnan(row))).all(axis=1)) for row in got]
    order = [int(rows[0]) if rows.size else -1 for rows in near]
    return sorted(order) == list(range(len(order)))
