"""The backends that networks are checked on: one literal table, a row each, and how a row is found or missing."""

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from portable_ffn.testing._backends import machine, settings, ways
from portable_ffn.testing._backends.arrays import PUT, Values, device_of, take
from portable_ffn.testing._backends.ways import Function as Function

ALL = ("float64", "float32", "float16", "bfloat16")


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
    wrap: Callable[[Function], Function] = ways.as_it_is
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
    Backend("numpy:generic", "numpy", "numpy", ALL, wrap=ways.generic, ours=True),
    Backend("torch", "torch", "torch", ALL, inside=settings.torch_highest),
    Backend("torch:generic", "torch", "torch", ALL, wrap=ways.generic, inside=settings.torch_highest, ours=True),
    Backend(
        "torch:compile",
        "torch",
        "torch",
        ALL,
        wrap=ways.compile,
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
        "jax:jit",
        "jax",
        "jax",
        ALL,
        devices=lambda: machine.jax_devices("cpu"),
        wrap=ways.jit,
        inside=settings.jax_highest,
    ),
    Backend(
        "jax:generic",
        "jax",
        "jax",
        ALL,
        devices=lambda: machine.jax_devices("cpu"),
        wrap=ways.generic,
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
    Backend("tensorflow:function", "tensorflow", "tensorflow", ALL, wrap=ways.function),
    Backend("tensorflow:xla", "tensorflow", "tensorflow", ALL, wrap=ways.xla, slow=True),
    Backend("paddle", "paddle", "paddlepaddle", ALL),
    # A program of Paddle keeps the numbers of a formula as float32, so that it can't be right in float64 (3.3).
    Backend("paddle:static", "paddle", "paddlepaddle", ALL[1:], wrap=ways.static, slow=True),
    # Half precision takes a clang that compiles it for a CPU, 15 at least.
    Backend("tinygrad", "tinygrad", "tinygrad", ALL[:2], missing_piece=machine.no_clang, slow=True),
    Backend(
        "tinygrad:jit", "tinygrad", "tinygrad", ALL[:2], missing_piece=machine.no_clang, wrap=ways.tinyjit, slow=True
    ),
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
