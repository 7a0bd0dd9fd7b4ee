"""Which of the arrays a network takes, read from its signature, and what there is to say of those it doesn't take."""

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
    if not callable(fn) or isinstance(fn, type):
        came = f"the class {fn.__name__}" if isinstance(fn, type) else type(fn).__name__
        raise TypeError(f"fn must be a network to call as fn(x, W1, b1, W2, b2), got {came}")
    order = _GATED if gated else _PLAIN
    signature = _signature(fn)
    if signature is None:
        return order[0]
    parameters = list(signature.parameters.values())
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p.name for p in places if p.default is p.empty]
    if needed and set(needed) <= set(ARRAYS):
        useful = set(arrays_meant(gated, bias))
        named = _leading([p.name for p in places if p.name in ARRAYS], needed, useful)
        if {"x", "W1", "W2", *(("V",) if gated else ())} <= set(named):
            return named
    most = len(places) if not any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(ARRAYS)
    for names in order:
        if len(needed) <= len(names) <= most and not set(needed) & (set(ARRAYS) - set(names)):
            return names
    asked = f"{', '.join(ARRAYS[:5])}{', V, c' if gated else ''}"
    told = f"fn must take {asked} (biases may be left out), got the parameters {signature}"
    if len(needed) == 1:
        told += (
            f"; what holds weights of its own, such as a module, goes into a function({asked}) that puts those into it "
            "and calls it on x (README, Check your own network)"
        )
    raise TypeError(told)


def arrays_meant(gated: bool, bias: bool) -> tuple[str, ...]:
    """The names of the arrays that a network has which is gated or not, with or without biases."""
    meant = {"x", "W1", "W2", *(("b1", "b2") if bias else ()), *(("V",) if gated else ())}
    return tuple(name for name in ARRAYS if name in meant or (name == "c" and gated and bias))


def not_taken(fn: Callable[..., Any], taken: tuple[str, ...], gated: bool, bias: bool) -> str:
    """What was not checked since the network doesn't take it; "" where it takes all that it is meant to have."""
    lacking = [name for name in arrays_meant(gated, bias) if name not in taken]
    if not lacking:
        return ""
    biases = lacking == [name for name in ("b1", "b2", "c") if name in arrays_meant(gated, bias)]
    without = "biases" if biases else " and ".join(lacking)
    name = getattr(fn, "__name__", type(fn).__name__)
    told = f"{name} takes no {', '.join(lacking)}: checked without {without}"
    return f"{told}; say bias=False (--no-bias) where none are meant" if biases else told


def told_of_none(error: BaseException, gated: bool, bias: bool, taken: tuple[str, ...]) -> str:
    """What explains an error over a None: which arrays are None, and why; "" where it is no such error."""
    absent = [name for name in taken if name not in arrays_meant(gated, bias)]
    branch = [name for name in absent if name in ("V", "c") and not gated]
    biases = [name for name in absent if name not in branch]
    # A network that needs V fails without it, in whatever words; one without biases may fail for other reasons.
    if not branch and not (isinstance(error, (TypeError, AttributeError)) and "None" in str(error)):
        return ""
    why = {"bias=False (--no-bias)": biases, "gated=False; say gated=True (--gated) to have them": branch}
    told = [f"None for {', '.join(names)}, since {reason}" for reason, names in why.items() if names]
    return f" (it was given {', and '.join(told)})" if told else ""


def _signature(fn: Callable[..., Any]) -> inspect.Signature | None:
    """What `fn` takes; of a module that hands everything on, what it hands it on to. None where that isn't known."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # a builtin without a signature
        return None
    method = _handed_on(fn)
    if method is not None and any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values()):
        return inspect.signature(method)
    return signature


def _handed_on(fn: Callable[..., Any]) -> Callable[..., Any] | None:
    """PyTorch's modules hand what they are called with on to `forward`, Keras' layers to `call`."""
    methods = (getattr(fn, name, None) for name in ("forward", "call"))
    return next((method for method in methods if inspect.ismethod(method)), None)


def _leading(places: list[str], needed: list[str], useful: set[str]) -> tuple[str, ...]:
    """The arrays up to the last one that is needed or useful: those between hold their places."""
    last = max(i for i, name in enumerate(places) if name in needed or name in useful)
    return tuple(places[: last + 1])
