"""The check of a checkpoint's own layers, with their real weights, on every library."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from portable_ffn import Weights, feed_forward, hidden, oracle
from portable_ffn._activations.named import activation_name
from portable_ffn._arrays.dtype import REAL_FLOATING, dtype_name
from portable_ffn._arrays.number import whole
from portable_ffn._arrays.typing import DType
from portable_ffn.testing._backends.arrays import Float64, held, take
from portable_ffn.testing._backends.gaps import narrowed
from portable_ffn.testing._backends.select import Place, select
from portable_ffn.testing._backends.table import Backend
from portable_ffn.testing._inputs.layers import Given, random_inputs
from portable_ffn.testing._measure.compare import compare, shares
from portable_ffn.testing._models.unequal import equal
from portable_ffn.testing._report.report import Report
from portable_ffn.testing._report.rows import Row
from portable_ffn.testing._report.run import run_of_model
from portable_ffn.testing._report.text import said

# One row a library: its other ways of running are what the matrix is for.
LIBRARIES = ("numpy", "torch", "torch:cuda", "jax", "jax:gpu", "array-api-strict", "dask", "ndonnx", "mlx", "cupy")


def check_model(
    path: str | os.PathLike[str],
    *,
    backends: Iterable[str] | None = None,
    devices: Iterable[str] | None = None,
    dtypes: Iterable[DType] | None = None,
    inputs: Mapping[int, Given] | None = None,
    seed: int = 0,
    progress: Callable[[Row], object] | None = None,
    **facts: Any,
) -> Report:
    """Check the feed-forward layers of a checkpoint, and their hidden layers, on every library that is found.

    Parameters
    ----------
    path : str or path
        What `portable_ffn.checkpoint.find` takes, with its `facts`.
    backends, devices, dtypes
        As for `check`; a row a library where nothing is asked for.
    inputs : dict, optional
        What enters each layer, by number; layers that are not in it are left out. Random where not given.
    seed : int
        That of random inputs.
    progress : callable, optional
        Called with each row when it is there.

    Returns
    -------
    Report
        With the rows "layer N", "hidden N"; where an input comes with its output, a row of the oracle against that.
        Its notes say which layers the config counts and the files lack.

    Raises
    ------
    CheckpointError
        Where the checkpoint can't be read, or doesn't say what it means.
    """
    from portable_ffn import checkpoint
    from portable_ffn.checkpoint._missing_layers import missing_layers

    seed = whole("seed", seed, 0)
    wanted = [name for name in LIBRARIES if backends is None]
    asked = list(backends) if backends is not None else None
    selection = select(asked, devices, dtypes)
    places = [place for place in selection.places if asked is not None or place.backend.name in wanted]
    rows: list[Row] = []
    entries = [network for entry in checkpoint.find(path, **facts) for network in entry.networks]
    for entry, name in zip(entries, _names(entries), strict=True):
        given = random_inputs(int(entry.d_model or 0), entry.layer, seed) if inputs is None else inputs.get(entry.layer)
        if given is None:
            continue
        layer = _Layer(entry, name, given)
        for row in layer.rows(places):
            rows.append(row)
            if progress is not None:
                progress(row)
    missing = [
        Row(name, "", "", "", False, False, "", "error", np.nan, message=f"{name} was asked for, but {reason}")
        for name, reason in selection.missing.items()
    ]
    versions = {place.backend.library: place.backend.version() for place in places}
    store = next((entry.store for entry in entries if entry.store is not None), None)
    notes = [] if store is None else missing_layers(entries, store)
    return Report(
        (*missing, *rows), versions, selection.absent, notes=tuple(notes), run=run_of_model(path, seed=seed, **facts)
    )


def _names(entries: list[Any]) -> list[str]:
    """Each layer in a few words: its number, with its stack where there are several, else its whole name."""
    several = len({entry.stack for entry in entries}) > 1
    short = [
        f"{f'{entry.stack} ' * several}layer {entry.layer}"
        + ("" if entry.expert is None else f" expert {entry.expert}")
        for entry in entries
    ]
    return [name if short.count(name) == 1 else entry.name for entry, name in zip(entries, short, strict=True)]


class _Layer:
    """One layer of a checkpoint with the oracle's answers, a dtype at a time."""

    def __init__(self, entry: Any, name: str, given: Given) -> None:
        self.entry, self.name, self.given = entry, name, given
        self.network = entry.load()
        self.answers: dict[tuple[str, str], tuple[Float64, Weights, Any, Any]] = {}

    def rows(self, places: list[Place]) -> Iterator[Row]:
        """The layer and its hidden layer at each place; the oracle itself against an output that was given."""
        if self.given.y is not None and self.network.plain:
            yield self._oracle_row(self.given.y)
        for dtype in REAL_FLOATING[::-1]:
            for place in places:
                if dtype in place.dtypes:
                    yield from self._place_rows(place.backend, place.device, dtype)
            self.answers.clear()

    def _place_rows(self, backend: Backend, device: str, dtype: str) -> Iterator[Row]:
        """Both rows of one library, device and dtype."""
        fill = self._filler(backend.name, device, dtype)
        act = self.network.activation
        with backend.inside():
            try:
                x = backend.put(held(self.given.x, dtype), dtype, device)
                served = dtype_name(x.dtype)
                weights = self.entry.load(like=x).weights
                _, _, y, h = self.answer(dtype, served)
                whole = backend.wrap(partial(feed_forward, activation=act))(x, *weights)
                part = backend.wrap(partial(hidden, activation=act))(x, weights.W1, weights.b1, weights.V, weights.c)
                compared = [
                    (self.name, compare(whole, x, *y, dtype=served, device=device, valueless=backend.valueless)),
                    (
                        f"{self.name} hidden",
                        compare(part, x, *h, dtype=served, device=device, valueless=backend.valueless),
                    ),
                ]
                carried = "" if backend.valueless else self._carried(weights, dtype, served)
            except Exception as error:
                yield fill(self.name, "error", np.nan, message=said(error))
                return
        for case, found in compared:
            fault = "; ".join(filter(None, (found.fault, carried)))
            if fault:
                yield fill(case, "fail", found.worst, message=fault)
            elif served != dtype:
                reason = narrowed(backend, dtype, served)
                yield fill(case, "gap", found.worst, (f"{dtype} served as {served}",), reason)
            else:
                yield fill(case, "pass", found.worst)

    def _carried(self, weights: Weights, dtype: str, served: str) -> str:
        """Which weights have changed on their way into the library."""
        before = self.answer(dtype, served)[1]
        changed = [
            name
            for name, there, here in zip(Weights._fields, weights, before, strict=True)
            if there is not None and not equal(take(there), here if served == dtype else held(here, served))
        ]
        return f"weights must arrive as they are in the file, but {', '.join(changed)} changed" if changed else ""

    def answer(self, dtype: str, served: str) -> tuple[Float64, Weights, Any, Any]:
        """x and the weights as a dtype holds them; the oracle's y and hidden layer, each with its bound."""
        if (dtype, served) not in self.answers:
            x = held(self.given.x, dtype)
            weights = Weights(*(None if array is None else held(array, dtype) for array in self.network.weights))
            act = self.network.activation
            W1, b1, _, _, V, c = weights
            y = oracle.feed_forward(x, *weights, activation=act, dtype=served)
            h = oracle.hidden(x, W1, b1, V, c, activation=act, dtype=served)
            self.answers[dtype, served] = x, weights, y, h
        return self.answers[dtype, served]

    def _oracle_row(self, y: Float64) -> Row:
        """The oracle against what another implementation computed in float64."""
        fill = self._filler("oracle", "cpu", "float64")
        expected, bound = self.answer("float64", "float64")[2]
        if y.shape != expected.shape:
            message = f"the given output must have shape {expected.shape}, got {y.shape}"
            return fill(self.name, "fail", np.inf, message=message)
        worst = float(np.max(shares(y, expected, bound), initial=0.0))
        if worst <= 1.0:
            return fill(self.name, "pass", worst)
        return fill(
            self.name, "fail", worst, message=f"the given output is {worst:.3g} times the bound from the oracle"
        )

    def _filler(self, backend: str, device: str, dtype: str) -> Callable[..., Row]:
        """A row that lacks its case and outcome."""
        bias = any(array is not None for array in (self.network.weights.b1, self.network.weights.b2))
        name = activation_name(self.network.activation)
        return partial(Row, backend, device, dtype, name, self.network.weights.gated, bias)
