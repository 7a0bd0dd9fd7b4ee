"""What each library does faster in its own words: one row a library. Speed only: without it no value is another."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from portable_ffn._arrays.arguments import Call
from portable_ffn._arrays.typing import Array


class Row(NamedTuple):
    """What a library has of its own.

    Attributes
    ----------
    network : Call -> y, None for a case that is left to functions of the standard
    small : the arguments of feed_forward as they came -> y, None for a call whose like was not checked before
    experts : a checked mixture of experts, and the function that computes it round a given sum -> y, or None
    gradient : a module with `forward` and `gradients`, each of which returns None for what it leaves to the standard
    """

    network: Callable[[Call], Array | None]
    small: Callable[..., Array | None]
    gradient: Any = None
    experts: Callable[[Any, Callable[..., Array]], Array | None] | None = None


# Loaded at the first call that needs them, by import statements: torch.compile follows these.
def _numpy() -> Row:
    from portable_ffn._native.numpy import gradient
    from portable_ffn._native.numpy.experts import experts
    from portable_ffn._native.numpy.network import network
    from portable_ffn._native.numpy.small import small

    return Row(network, small, gradient, experts)


def _torch() -> Row:
    from portable_ffn._native.torch.experts import experts
    from portable_ffn._native.torch.network import network
    from portable_ffn._native.torch.small import small

    return Row(network, small, experts=experts)


def _jax() -> Row:
    from portable_ffn._native.jax.experts import experts
    from portable_ffn._native.jax.network import network, small

    return Row(network, small, experts=experts)


ROWS: Mapping[str, Callable[[], Row]] = {"numpy": _numpy, "torch": _torch, "jax": _jax}

_loaded: dict[str, Row] = {}
# The type of an array -> its library's small call, once a call was checked in full.
_small: dict[type, Callable[..., Array | None]] = {}
# Not empty inside `without_native`.
_off: list[None] = []


def row(library: str) -> Row | None:
    """The row of a library; None where it has none, or none is wanted."""
    if _off or library not in ROWS:
        return None
    found = _loaded.get(library)
    if found is None:
        found = _loaded[library] = ROWS[library]()
    return found


def run(call: Call) -> Array | None:
    """The network by the library's own row; None where functions of the standard are to compute it."""
    found = row(call.library.name)
    if found is None:
        return None
    kind = type(call.arrays[0])
    if kind not in _small:
        _small[kind] = found.small
    return found.network(call)


def small(kind: type) -> Callable[..., Array | None] | None:
    """What answers a small call whose like was checked before, for an x of this type; None where nothing does."""
    return None if _off else _small.get(kind)


@contextmanager
def without_native() -> Iterator[None]:
    """A context in which every library goes the generic way, for tests; it holds for all threads."""
    _off.append(None)
    try:
        yield
    finally:
        _off.pop()
