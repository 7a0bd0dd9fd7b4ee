"""Which of the arrays a network takes, read from its signature."""

import inspect
from collections.abc import Callable
from typing import Any

ARRAYS = ("x", "W1", "b1", "W2", "b2", "V", "c")

# By the number of arrays, for a network whose parameters have other names; the first that fits.
_PLAIN = (ARRAYS[:5], ARRAYS, ("x", "W1", "W2"))
_GATED = (ARRAYS, ARRAYS[:6], ("x", "W1", "W2", "V"))


def arrays_taken(fn: Callable[..., Any], gated: bool, bias: bool) -> tuple[str, ...]:
    """The names of the arrays that `fn` is to be called with, in its order.

    Parameters with the papers' names are taken by name. Others are counted: five arrays, or seven with V and c;
    three without biases, or four with V.

    Raises TypeError for a network that takes none of these.
    """
    if not callable(fn):
        raise TypeError(f"fn must be a network to call as fn(x, W1, b1, W2, b2), got {type(fn).__name__}")
    order = _GATED if gated else _PLAIN
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return order[0]
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p.name for p in places if p.default is p.empty]
    if needed and set(needed) <= set(ARRAYS):
        useful = {"x", "W1", "W2", *(("b1", "b2") if bias else ()), *(("V",) if gated else ())}
        useful |= {"c"} if gated and bias else set()
        named = _leading([p.name for p in places if p.name in ARRAYS], needed, useful)
        if {"x", "W1", "W2", *(("V",) if gated else ())} <= set(named):
            return named
    most = len(places) if not any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(ARRAYS)
    for names in order:
        if len(needed) <= len(names) <= most and not set(needed) & (set(ARRAYS) - set(names)):
            return names
    asked = f"{', '.join(ARRAYS[:5])}{', V, c' if gated else ''}"
    raise TypeError(f"fn must take {asked} (biases may be left out), got the parameters {inspect.signature(fn)}")


def _leading(places: list[str], needed: list[str], useful: set[str]) -> tuple[str, ...]:
    """The arrays up to the last one that is needed or useful: those between hold their places."""
    last = max(i for i, name in enumerate(places) if name in needed or name in useful)
    return tuple(places[: last + 1])
