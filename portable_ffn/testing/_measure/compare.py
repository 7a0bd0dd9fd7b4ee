"""The one comparison: library, dtype, shape and device of an answer, then its values in units of the oracle's bound."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from portable_ffn._arrays.dtype import dtype_name
from portable_ffn._arrays.kind import kind_of
from portable_ffn._arrays.library import library_of
from portable_ffn.testing._backends.arrays import Float64, device_of, take


@dataclass(frozen=True, slots=True)
class Agreement:
    """How an answer compares: `worst` is its largest error as a fraction of the bound, `place` where that is.

    `fault` is empty where it agrees, else says what must hold, what came, and where. `values` is the answer in
    float64, None where it could not be read or has the wrong shape. `worst` is NaN where no values were compared.
    """

    worst: float
    place: tuple[int, ...] | None
    fault: str
    values: Float64 | None

    @property
    def agrees(self) -> bool:
        """Whether the answer is of the right kind and within the bound everywhere."""
        return not self.fault


def compare(
    got: Any,
    x: Any,
    expected: Float64,
    bound: Float64,
    *,
    dtype: str | None = None,
    device: str | None = None,
    valueless: bool = False,
) -> Agreement:
    """Compare an answer with the oracle's.

    Parameters
    ----------
    got : array
        The answer, of any library.
    x : array
        What the network was given: the answer must be of its library and on its device.
    expected, bound : ndarray of float64
        What `portable_ffn.oracle` returns.
    dtype : str, optional
        The dtype that the answer must have, by name; that of x where it is not given.
    device : str, optional
        The device that it must lie on, that of x where it is not given.
    valueless : bool
        The arrays have no values (PyTorch's meta device): only what surrounds them is compared.

    Returns
    -------
    Agreement
        Within the bound means ``|got - expected| <= bound``; NaN exactly where the oracle has NaN, the same infinity
        where it has one. Where the bound is infinite, anything is accepted.
    """
    faults = list(_of_another_kind(got, x, tuple(expected.shape), dtype, device))
    if library_of(got) is None or tuple(got.shape) != tuple(expected.shape):
        return Agreement(float("inf"), None, "; ".join(faults), None)
    if valueless:
        return Agreement(float("nan"), None, "; ".join(faults), None)
    values = take(got)
    share = shares(values, expected, bound)
    worst, place = _largest(share)
    if not worst <= 1.0 and place is not None:
        faults.append(_outside(values, expected, bound, share, worst, place))
    return Agreement(worst, place, "; ".join(faults), values)


def assert_agrees(
    got: Any,
    x: Any,
    expected: Float64,
    bound: Float64,
    *,
    dtype: str | None = None,
    device: str | None = None,
    valueless: bool = False,
) -> float:
    """Raise AssertionError unless the answer agrees (see `compare`); returns its worst error over the bound."""
    found = compare(got, x, expected, bound, dtype=dtype, device=device, valueless=valueless)
    if found.fault:
        raise AssertionError(found.fault)
    return found.worst


def shares(values: Float64, expected: Float64, bound: Float64) -> Float64:
    """The error of each value as a fraction of its bound; inf where a NaN or an infinity is out of place."""
    with np.errstate(all="ignore"):
        error = np.abs(values - expected)
        share = np.where(error == 0.0, 0.0, error / bound)
    same = (values == expected) | (np.isnan(values) & np.isnan(expected))
    share = np.where(same | np.isposinf(bound), 0.0, share)
    settled: Float64 = np.where(np.isnan(share), np.inf, share)
    return settled


def _of_another_kind(got: Any, x: Any, shape: tuple[int, ...], dtype: str | None, device: str | None) -> Any:
    """What is wrong with an answer before its values are looked at."""
    library = library_of(x)
    if library_of(got) != library:
        yield f"the answer must be an array of {library} as x is, got {library_of(got) or kind_of(got)}"
        if library_of(got) is None:
            return
    wanted = dtype_name(x.dtype) if dtype is None else dtype
    if dtype_name(got.dtype) != wanted:
        yield f"the answer must have dtype {wanted}, got {dtype_name(got.dtype)}"
    if tuple(got.shape) != shape:
        yield f"the answer must have shape {shape}, got {tuple(got.shape)}"
    place = device_of(x) if device is None else device
    if library_of(got) == library and device_of(got) != place:
        yield f"the answer must lie on {place}, got {device_of(got)}"


def _largest(share: Float64) -> tuple[float, tuple[int, ...] | None]:
    """The largest share and where it is; 0 and nowhere for an empty answer."""
    if not share.size:
        return 0.0, None
    place = tuple(int(i) for i in np.unravel_index(int(np.argmax(share)), share.shape))
    return float(share[place]), place


def _outside(
    values: Float64,
    expected: Float64,
    bound: Float64,
    share: Float64,
    worst: float,
    place: tuple[int, ...],
) -> str:
    """The fault of values outside the bound."""
    where = f" at {place}" if place else ""
    outside = int(np.count_nonzero(share > 1.0))
    return (
        f"the answer must be {expected[place]:.9g} within {bound[place]:.3g}{where}, got {values[place]:.9g}: "
        f"{worst:.3g} times the bound; {outside} of {share.size} values are outside"
    )
