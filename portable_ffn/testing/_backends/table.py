"""The backends that networks are checked on: one literal table, a row each, and how a row is found or missing."""

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from portable_ffn.testing._backends import machine, settings
from portable_ffn.testing._backends.arrays import PUT, Values, device_of, take

Function = Callable[..., Any]

ALL = ("float64", "float32", "float16", "bfloat16")


def _as_it_is(fn: Function) -> Function:
    """fn itself."""
    return fn


def _generic(fn: Function) -> Function:
    """fn with the table of native rows emptied, so that only functions of the standard are called."""
    native = importlib.import_module("portable_ffn._native.table")

    def plain(*arrays: Any) -> Any:
        with native.without_native():
            return fn(*arrays)

    return plain


def _jit(fn: Function) -> Function:
    """fn traced and compiled by XLA."""
    compiled: Function = importlib.import_module("jax").jit(fn)
    return compiled


def _compile(fn: Function) -> Function:
    """fn traced whole by Dynamo and compiled by Inductor."""
    compiled: Function = importlib.import_module("torch").compile(fn, fullgraph=True)
    return compiled


def _function(fn: Function) -> Function:
    """fn as a graph of TensorFlow, for x of any lengths but the last."""
    tf = importlib.import_module("tensorflow")

    def traced(*arrays: Any) -> Any:
        given = [array for array in arrays if array is not None]
        specs = [tf.TensorSpec(array.shape, array.dtype) for array in given]
        specs[0] = tf.TensorSpec([None] * (len(given[0].shape) - 1) + [given[0].shape[-1]], given[0].dtype)

        def body(*inner: Any) -> Any:
            rest = iter(inner)
            return fn(*(None if array is None else next(rest) for array in arrays))

        return tf.function(body, input_signature=specs)(*given)

    return traced


def _xla(fn: Function) -> Function:
    """fn compiled by XLA in TensorFlow."""
    compiled: Function = importlib.import_module("tensorflow").function(fn, jit_compile=True)
    return compiled


def _static(fn: Function) -> Function:
    """fn as a program of Paddle."""
    paddle = importlib.import_module("paddle")

    def traced(*arrays: Any) -> Any:
        return paddle.jit.to_static(lambda *given: fn(*given), full_graph=True)(*arrays)

    return traced


def _tinyjit(fn: Function) -> Function:
    """fn captured by tinygrad and replayed: the third call is the first that doesn't run Python."""
    tinygrad = importlib.import_module("tinygrad")

    def replayed(*arrays: Any) -> Any:
        jitted = tinygrad.TinyJit(lambda *given: fn(*given).realize())
        given = [None if array is None else array.realize() for array in arrays]
        for _ in range(3):
            y = jitted(*given)
        return y

    return replayed


@dataclass(frozen=True, slots=True)
class Backend:
    """One row: a library in one of its ways of running.

    `library` is the package that must be importable and the name that its arrays are known by, `distribution` where
    its version is read. `missing_piece` says what else is lacking, or None. `wrap` makes of a network on arrays the
    one that is called, `inside` is the context of that call. `read_only` gives NumPy arrays that can't be written to.
    `valueless` arrays have shapes but no values. `slow` rows run few cases; `ours` rows mean something for
    portable_ffn alone.
    """

    name: str
    library: str
    distribution: str
    dtypes: tuple[str, ...]
    devices: Callable[[], tuple[str, ...]] = lambda: ("cpu",)
    missing_piece: Callable[[], str | None] = machine.nothing_more
    wrap: Callable[[Function], Function] = _as_it_is
    inside: Callable[[], AbstractContextManager[None]] = settings.as_it_is
    read_only: bool = False
    valueless: bool = False
    slow: bool = False
    ours: bool = False

    def missing(self) -> str | None:
        """Why this backend can't run here; None where it can."""
        if importlib.util.find_spec(self.library) is None:
            return f"{self.distribution} is not installed"
        if self.library == "dask" and importlib.util.find_spec("dask.array") is None:
            return "dask.array is not installed"
        return self.missing_piece()

    def version(self) -> str:
        """The version of the library, which is there."""
        return importlib.metadata.version(self.distribution)

    def held_dtypes(self) -> tuple[str, ...]:
        """The real floating dtypes that can be had here; NumPy's bfloat16 comes with ml_dtypes."""
        without = self.library in ("numpy", "dask") and importlib.util.find_spec("ml_dtypes") is None
        return tuple(dtype for dtype in self.dtypes if not (without and dtype == "bfloat16"))

    def put(self, values: Values, dtype: str = "float64", device: str | None = None) -> Any:
        """A real array of this library from NumPy's, in a dtype by name, on one of its devices (the first)."""
        array = PUT[self.library](values, dtype, self.devices()[0] if device is None else device)
        if self.read_only:
            array.flags.writeable = False
        return array

    take = staticmethod(take)
    device_of = staticmethod(device_of)


ROWS: tuple[Backend, ...] = (
    Backend("numpy", "numpy", "numpy", ALL),
    Backend("numpy:readonly", "numpy", "numpy", ALL, read_only=True),
    Backend("numpy:generic", "numpy", "numpy", ALL, wrap=_generic, ours=True),
    Backend("torch", "torch", "torch", ALL, inside=settings.torch_highest),
    Backend("torch:generic", "torch", "torch", ALL, wrap=_generic, inside=settings.torch_highest, ours=True),
    Backend(
        "torch:compile",
        "torch",
        "torch",
        ALL,
        wrap=_compile,
        inside=settings.torch_compiling,
        missing_piece=machine.no_compiler,
        slow=True,
    ),
    Backend("torch:meta", "torch", "torch", ALL, devices=lambda: ("meta",), valueless=True),
    Backend(
        "torch:cuda",
        "torch",
        "torch",
        ALL,
        devices=lambda: machine.numbered(importlib.import_module("torch").cuda.device_count),
        missing_piece=machine.no_cuda_in_torch,
        inside=settings.torch_highest,
    ),
    Backend("jax", "jax", "jax", ALL, devices=lambda: machine.jax_devices("cpu"), inside=settings.jax_highest),
    Backend(
        "jax:jit", "jax", "jax", ALL, devices=lambda: machine.jax_devices("cpu"), wrap=_jit, inside=settings.jax_highest
    ),
    Backend(
        "jax:generic",
        "jax",
        "jax",
        ALL,
        devices=lambda: machine.jax_devices("cpu"),
        wrap=_generic,
        inside=settings.jax_highest,
        ours=True,
    ),
    Backend("jax:x64-off", "jax", "jax", ALL, devices=lambda: machine.jax_devices("cpu"), inside=settings.jax_x64_off),
    Backend(
        "jax:gpu",
        "jax",
        "jax",
        ALL,
        devices=lambda: machine.jax_devices("gpu"),
        missing_piece=machine.no_gpu_in_jax,
        inside=settings.jax_highest,
    ),
    Backend(
        "array-api-strict",
        "array_api_strict",
        "array-api-strict",
        ("float64", "float32"),
        devices=lambda: ("CPU_DEVICE", "device1", "device2"),
        inside=settings.strict_flags,
    ),
    Backend("dask", "dask", "dask", ALL, inside=settings.dask_lazy),
    Backend("ndonnx", "ndonnx", "ndonnx", ("float64", "float32", "float16")),
    Backend("mlx", "mlx", "mlx", ALL, inside=settings.mlx_cpu),
    Backend("tensorflow", "tensorflow", "tensorflow", ALL),
    Backend("tensorflow:function", "tensorflow", "tensorflow", ALL, wrap=_function),
    Backend("tensorflow:xla", "tensorflow", "tensorflow", ALL, wrap=_xla, slow=True),
    Backend("paddle", "paddle", "paddlepaddle", ALL),
    Backend("paddle:static", "paddle", "paddlepaddle", ALL, wrap=_static, slow=True),
    Backend("tinygrad", "tinygrad", "tinygrad", ALL, missing_piece=machine.no_clang),
    Backend("tinygrad:jit", "tinygrad", "tinygrad", ALL, missing_piece=machine.no_clang, wrap=_tinyjit, slow=True),
    Backend("dpnp", "dpnp", "dpnp", ("float64", "float32"), missing_piece=machine.no_sycl),
    Backend(
        "cupy",
        "cupy",
        "cupy",
        ("float64", "float32", "float16"),
        devices=lambda: machine.numbered(importlib.import_module("cupy").cuda.runtime.getDeviceCount),
        missing_piece=machine.no_cuda_in_cupy,
    ),
)

BACKENDS: Mapping[str, Backend] = MappingProxyType({row.name: row for row in ROWS})
"""Every row by its name."""


def backend(name: str) -> Backend:
    """The row of that name; ValueError that lists the names."""
    if name not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {name!r}")
    return BACKENDS[name]
