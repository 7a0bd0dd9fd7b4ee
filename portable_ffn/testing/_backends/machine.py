"""What this machine has beside the libraries: compilers and devices, each library's own word on them."""

import importlib
import os
import shutil
from collections.abc import Callable


def nothing_more() -> str | None:
    """The library alone is enough."""
    return None


def no_compiler() -> str | None:
    """Inductor needs a C++ compiler on a CPU."""
    found = any(map(shutil.which, ("c++", "g++", "clang++")))
    return None if found else "torch.compile needs a C++ compiler, none found"


def no_cuda_in_torch() -> str | None:
    """PyTorch's own word on its GPUs."""
    return None if importlib.import_module("torch").cuda.is_available() else "PyTorch finds no CUDA device"


def no_gpu_in_jax() -> str | None:
    """JAX's own word on its GPUs."""
    return None if jax_devices("gpu") else "JAX finds no GPU"


def no_cuda_in_cupy() -> str | None:
    """CuPy's own word on its GPUs."""
    try:
        count = importlib.import_module("cupy").cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy has an error type of its own for each missing piece of CUDA
        return f"CuPy finds no CUDA device: {error}"
    return None if count else "CuPy finds no CUDA device"


def no_clang() -> str | None:
    """What tinygrad compiles by on a CPU."""
    return (
        None if shutil.which(os.environ.get("CC", "clang")) else "tinygrad needs clang to compile for a CPU, none found"
    )


def no_sycl() -> str | None:
    """dpnp's own word on its devices."""
    try:
        importlib.import_module("dpnp").empty(1)
    except Exception as error:  # of dpctl's own type, which is in no stable place
        return f"dpnp finds no SYCL device: {error}"
    return None


def jax_devices(platform: str) -> tuple[str, ...]:
    """The devices of one platform of JAX; none where it has no such platform."""
    try:
        devices = importlib.import_module("jax").devices(platform)
    except RuntimeError:
        return ()
    return tuple(f"{device.platform}:{device.id}" for device in devices)


def numbered(count: Callable[[], int]) -> tuple[str, ...]:
    """CUDA devices by their number."""
    return tuple(f"cuda:{index}" for index in range(count()))
