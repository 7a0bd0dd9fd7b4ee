"""What each library does faster in its own words. Speed only: with these tables emptied every value is the same.

A row of NATIVE takes a network that was validated and promoted, and returns y, or None for a case that it leaves to
the generic path. A row of WHOLE takes the arguments as they came, for an x of exactly that type, and makes every
check itself; it returns y, or None for all that the long way is for.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Row = Callable[..., Any]


# A room that imports a library is imported at the first call that needs it, and stands in the table from then on.
def _numpy(*network: Any) -> Any:
    import numpy as np

    from portable_ffn._native.numpy.network import network as row
    from portable_ffn._native.numpy.small import whole

    _enter("numpy", row, np.ndarray, whole)
    return row(*network)


def _torch(*network: Any) -> Any:
    import torch

    from portable_ffn._native.torch.network import network as row
    from portable_ffn._native.torch.small import whole

    _enter("torch", row, torch.Tensor, whole)
    return row(*network)


def _jax(*network: Any) -> Any:
    from portable_ffn._native.jax.network import network as row

    _enter("jax", row)
    return row(*network)


def _enter(name: str, row: Row, kind: type | None = None, whole: Row | None = None) -> None:
    """Rows put into the tables, unless these were emptied while the rooms were imported."""
    if name in NATIVE:
        NATIVE[name] = row
        if kind is not None and whole is not None:
            WHOLE[kind] = whole


NATIVE: dict[str, Row] = {"numpy": _numpy, "torch": _torch, "jax": _jax}
# Filled as the rooms are imported.
WHOLE: dict[type, Row] = {}


@contextmanager
def without_native() -> Iterator[None]:
    """A context in which every library goes the generic way, for tests; it holds for all threads."""
    tables: tuple[dict[Any, Row], ...] = (NATIVE, WHOLE)
    kept = [dict(table) for table in tables]
    for table in tables:
        table.clear()
    try:
        yield
    finally:
        for table, rows in zip(tables, kept, strict=True):
            table.update(rows)
