"""The settings under which each library is checked, put back afterwards."""

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def as_it_is() -> Iterator[None]:
    """Nothing is set."""
    yield


@contextlib.contextmanager
def jax_highest() -> Iterator[None]:
    """JAX's products in full precision; x64 stays as the process has it."""
    with importlib.import_module("jax").default_matmul_precision("highest"):
        yield


@contextlib.contextmanager
def jax_x64_off() -> Iterator[None]:
    """JAX as it is without x64: float64 is served as float32."""
    jax = importlib.import_module("jax")
    off = jax.enable_x64(False) if hasattr(jax, "enable_x64") else jax.experimental.disable_x64()
    with off, jax.default_matmul_precision("highest"):
        yield


@contextlib.contextmanager
def torch_highest() -> Iterator[None]:
    """PyTorch's float32 products in float32: no TF32, no bfloat16.

    PyTorch has an older and a newer switch and refuses to read the one after the other was set, so both are put back.
    """
    torch = importlib.import_module("torch")
    parts: list[Any] = [torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None)]
    newer = [(part, part.fp32_precision) for part in parts if hasattr(part, "fp32_precision")]
    try:
        older = torch.get_float32_matmul_precision()
    except RuntimeError:
        older = None
    try:
        if older is not None:
            torch.set_float32_matmul_precision("highest")
        else:
            _set(newer, "ieee")
        yield
    finally:
        if older is not None:
            torch.set_float32_matmul_precision(older)
        for part, precision in newer:
            part.fp32_precision = precision


def _set(parts: list[tuple[Any, str]], precision: str) -> None:
    """One precision for several parts of PyTorch."""
    for part, _ in parts:
        part.fp32_precision = precision


@contextlib.contextmanager
def torch_compiling() -> Iterator[None]:
    """A compiler that starts empty, so that the limit of recompilations is not reached by the rows before."""
    with torch_highest():
        importlib.import_module("torch").compiler.reset()
        yield


@contextlib.contextmanager
def strict_flags() -> Iterator[None]:
    """array-api-strict with each flag at its strictest: nothing that depends on the data, and no extension."""
    strict = importlib.import_module("array_api_strict")
    with strict.ArrayAPIStrictFlags(boolean_indexing=False, data_dependent_shapes=False, enabled_extensions=()):
        yield


def _refuse(*_: Any, **__: Any) -> Any:
    """The scheduler of a network that has to stay lazy."""
    raise RuntimeError("a Dask array was computed before its values were asked for; a lazy network reads shapes only")


@contextlib.contextmanager
def dask_lazy() -> Iterator[None]:
    """Dask with a scheduler that raises."""
    with importlib.import_module("dask").config.set(scheduler=_refuse):
        yield


@contextlib.contextmanager
def mlx_cpu() -> Iterator[None]:
    """MLX on its CPU device."""
    mx = importlib.import_module("mlx.core")
    with mx.stream(mx.cpu):
        yield
