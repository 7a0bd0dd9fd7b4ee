"""A layer of a checkpoint applied to a file of rows, in bounded memory, safe to stop and to start again."""

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

import portable_ffn
from portable_ffn._arrays.dtype import dtype_name
from portable_ffn.command import CannotRun
from portable_ffn.command._apply.layer import choose, identity_of, load
from portable_ffn.command._apply.memory import Tracing, rows_that_fit
from portable_ffn.command._apply.npy import open_npy
from portable_ffn.command._apply.output import settle
from portable_ffn.command._apply.stream import run


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
        network = load(entry, dtype, source.dtype, memory, tracing)

        def step(start: int, stop: int) -> Any:
            x = source.read(start, stop)
            return network(x if dtype is None else x.astype(dtype, copy=False))

        y = step(0, 0)
        shape = (*shape[:-1], y.shape[-1])
        target = source.target(final, shape, _plain(y.dtype, output))
        key = {
            "versions": [portable_ffn.__version__, np.__version__],
            "input": source.identity(),
            "weights": identity_of(entry),
            "dtype": y.dtype.str,
            "memory": memory,
        }
        done = run(step, target, key, lambda: rows_that_fit(step, source, memory, tracing))
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
        raise CannotRun(
            f"{path}: a .zarr directory needs zarr and dask, and {error.name} is missing; install both"
        ) from None
    return open_zarr(path)


def _plain(dtype: np.dtype[Any], output: str) -> np.dtype[Any]:
    """The result's dtype, where files have a name for it."""
    if dtype.kind != "f":
        raise CannotRun(
            f"{output}: can't hold {dtype_name(dtype)}, which its format has no name for; pass --dtype float32",
        )
    return dtype
