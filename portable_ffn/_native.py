"""What each library does faster in its own words. Speed only: with this table emptied every value is the same.

A row takes a network that was validated and promoted, and returns y, or None for a case that it leaves to the
generic path.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Row = Callable[..., Any]


# A room that imports a library is imported at the first call that needs it, and stands in the table from then on.
def _numpy(*network: Any) -> Any:
    from portable_ffn._native_numpy import network as row

    NATIVE["numpy"] = row
    return row(*network)


def _torch(*network: Any) -> Any:
    from portable_ffn._native_torch import network as row

    NATIVE["torch"] = row
    return row(*network)


def _jax(*network: Any) -> Any:
    from portable_ffn._native_jax import network as row

    NATIVE["jax"] = row
    return row(*network)


NATIVE: dict[str, Row] = {"numpy": _numpy, "torch": _torch, "jax": _jax}


@contextmanager
def without_native() -> Iterator[None]:
    """A context in which every library goes the generic way, for tests; it holds for all threads."""
    rows = dict(NATIVE)
    NATIVE.clear()
    try:
        yield
    finally:
        NATIVE.update(rows)
