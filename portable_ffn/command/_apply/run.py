"""A layer of a checkpoint applied to a file of rows, in bounded memory, safe to stop and to start again."""

import json
import os
import platform
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

import portable_ffn
from portable_ffn._arrays.dtype import dtype_name
from portable_ffn.command import CannotRun
from portable_ffn.command._apply.journal import crc_of_input
from portable_ffn.command._apply.layer import Layer, choose
from portable_ffn.command._apply.memory import MOST_ROWS, Tracing, rows_that_fit
from portable_ffn.command._apply.npy import NpySource, open_npy
from portable_ffn.command._apply.npy_target import NpyTarget
from portable_ffn.command._apply.output import settle
from portable_ffn.command._apply.stream import Work, run

# What the environment says to the libraries below NumPy, which may choose another order of sums for it.
_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_CORETYPE")


def apply(
    model: str,
    input: str,
    output: str,
    *,
    memory: int,
    layer: int = 0,
    stack: str | None = None,
    name: str | None = None,
    dtype: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write what a layer of a checkpoint makes of the rows of a file.

    Parameters
    ----------
    model : str
        The checkpoint, as `portable_ffn.checkpoint.find` takes it.
    input, output : str
        Two .npy files, or two .zarr directories.
    memory : int
        Bytes that arrays, mapped weights and work space may take beside the interpreter and its libraries.
    layer, stack, name
        Which layer, as `portable_ffn.checkpoint.load` takes them.
    dtype : str, optional
        The dtype that x and the weights are cast to; that of the result where it is None.
    facts : mapping, optional
        `activation`, `gate` and `layout` where the checkpoint doesn't say.

    Returns
    -------
    dict
        What was done: rows in all, rows in a block, rows that an earlier run had finished, bytes held at most.

    Raises
    ------
    CannotRun
        Where it can't be done, in one line. What is finished stays beside the output for the next run.
    """
    path = Path(input).expanduser()
    with closing(_opener(input, output)(path)) as source, closing(Tracing()) as tracing:
        shape = source.shape
        entry = choose(model, layer, stack, name, facts or {})
        if entry.problem is None and shape[-1:] != (entry.d_model,):
            raise CannotRun(
                f"{input}: must have shape (..., d_model) with d_model = {entry.d_model} as {entry.name} has, "
                f"got {shape}",
            )
        final = settle(output, [path, *(info.file for info in entry.store.tensors.values())])
        loaded = Layer(entry, dtype, source.dtype, memory, tracing)

        def compute(x: Any) -> Any:
            return loaded.network(x if dtype is None else x.astype(dtype, copy=False))

        def step(start: int, stop: int) -> Any:
            x = source.read(start, stop)
            crc_of_input(x)
            return compute(x)

        y = step(0, 0)
        shape = (*shape[:-1], y.shape[-1])
        key = {
            "versions": _versions(),
            "input": source.identity(),
            "weights": loaded.key(),
            "network": loaded.fingerprint.rest,
            "facts": dict(facts or {}),
            "dtype": [dtype, y.dtype.str],
            "memory": memory,
        }
        work = Work(
            source,
            compute,
            json.loads(json.dumps(key)),  # as the journal gives it back
            lambda: rows_that_fit(step, source, memory, tracing),
            max(MOST_ROWS, source.unit),
            loaded.must_be_unchanged,
        )
        done = run(work, _target(source, final, shape, _plain(y.dtype, output)))
        held = tracing.most()
    return {
        "output": str(final),
        "layer": entry.name,
        "shape": list(shape),
        "dtype": dtype_name(y.dtype),
        "rows": source.rows,
        "rows_resumed": done.resumed,
        "rows_per_block": done.block,
        "memory": memory,
        "memory_held": held,
    }


def _opener(input: str, output: str) -> Callable[[Path], Any]:
    """What opens the input: by its name, which that of the output must agree with."""
    for suffix, opener in ((".npy", open_npy), (".zarr", _open_zarr)):
        if input.rstrip("/").endswith(suffix):
            if not output.rstrip("/").endswith(suffix):
                raise CannotRun(f"{output}: must be a {suffix} as the input is; give it that ending")
            return opener
    raise CannotRun(f"{input}: must be an .npy file or a .zarr directory; write it with numpy.save or zarr.save")


def _open_zarr(path: Path) -> Any:
    """A Zarr array, where zarr and dask are installed."""
    try:
        from portable_ffn.command._apply.zarr import open_zarr
    except ImportError as error:
        missing = f"{error.name} is missing; install both"
        raise CannotRun(f"{path}: a .zarr directory needs zarr and dask, and {missing}") from None
    return open_zarr(path)


def _target(source: Any, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Where the results go: a file in the order of the input's, or an array in chunks like the input's."""
    if isinstance(source, NpySource):
        return NpyTarget(path, shape, dtype, source.layout.fortran)
    from portable_ffn.command._apply.zarr_target import ZarrTarget

    return ZarrTarget(path, shape, dtype, source.array.chunks)


def _plain(dtype: np.dtype[Any], output: str) -> np.dtype[Any]:
    """The result's dtype, where files have a name for it."""
    if dtype.kind != "f":
        raise CannotRun(
            f"{output}: can't hold {dtype_name(dtype)}, which its format has no name for; pass --dtype float32",
        )
    return dtype


def _versions() -> list[Any]:
    """What computes: this package, NumPy, its BLAS, the processor's kind, and what they are told."""
    built: Any = np.show_config(mode="dicts")
    blas = built.get("Build Dependencies", {}).get("blas", {})
    settings = {name: os.environ[name] for name in _SETTINGS if name in os.environ}
    return [
        portable_ffn.__version__,
        np.__version__,
        [blas.get("name"), blas.get("version")],
        platform.machine(),
        settings,
    ]
