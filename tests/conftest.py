"""The world of the tests: libraries at their highest precision, backends found and demanded, the outside cases."""

import importlib.util
import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from portable_ffn.testing import BACKENDS, Backend

# Names of backends that must be there, comma-separated: one that is missing fails. Others skip with their reason.
DEMANDED = tuple(name.strip() for name in os.environ.get("PORTABLE_FFN_BACKENDS", "").split(",") if name.strip())

# A library's own warnings, which nobody but the library can put right.
LIBRARY_WARNINGS = (
    # PyTorch 2.13 calls its own deprecated TorchScript while Inductor and torch.export are being imported.
    r"ignore:`torch\.jit\.script(_method|_if_tracing)?` is deprecated:DeprecationWarning",
    r"ignore:`torch\.jit\.script(_method|_if_tracing)?` is not supported in Python 3\.14:DeprecationWarning",
    # Paddle 3.3 tells at its import what would only speed up compiling extensions.
    r"ignore:No ccache found:UserWarning",
    # Its own `where` asks a value of a program where it lies.
    r"ignore:Tensor do not have 'place' interface:UserWarning",
)


def pytest_configure(config: pytest.Config) -> None:
    """Set what is process-wide before any library starts."""
    unknown = [name for name in DEMANDED if name not in BACKENDS]
    if unknown:
        raise pytest.UsageError(
            f"PORTABLE_FFN_BACKENDS must name backends of {', '.join(BACKENDS)}; got {', '.join(unknown)}",
        )
    for line in LIBRARY_WARNINGS:
        config.addinivalue_line("filterwarnings", line)
    if importlib.util.find_spec("jax"):
        import jax

        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_default_matmul_precision", "highest")
        jax.config.update("jax_num_cpu_devices", 2)
    if importlib.util.find_spec("mlx"):
        import mlx.core as mx

        mx.set_default_device(mx.cpu)


def pytest_report_header() -> list[str]:
    """What was found, and what was not and why."""
    reasons = {name: row.missing() for name, row in BACKENDS.items()}
    found = [f"{name} {BACKENDS[name].version()}" for name, reason in reasons.items() if reason is None]
    absent = [f"{name} ({reason})" for name, reason in reasons.items() if reason is not None]
    return [
        f"backends found: {', '.join(found)}",
        f"backends absent: {', '.join(absent) or 'none'}",
        f"backends demanded: {', '.join(DEMANDED) or 'none'}",
        f"outside cases: {os.environ.get('PORTABLE_FFN_CASES', 'PORTABLE_FFN_CASES is not set')}",
    ]


def demand(name: str) -> Backend:
    """The backend of that name; where it is missing the test fails if it is demanded, else skips with the reason."""
    row = BACKENDS[name]
    reason = row.missing()
    if reason is not None:
        if name in DEMANDED:
            pytest.fail(f"backend {name} is demanded by PORTABLE_FFN_BACKENDS, but {reason}", pytrace=False)
        pytest.skip(f"backend {name}: {reason}")
    return row


@pytest.fixture
def require() -> Callable[[str], Backend]:
    """`require("torch:cuda")` is that backend; it skips with the reason, and fails where the backend is demanded."""
    return demand


@pytest.fixture(scope="session")
def cases() -> Path:
    """The folder of the larger outside cases: set and missing fails, unset skips."""
    given = os.environ.get("PORTABLE_FFN_CASES")
    if given is None:
        pytest.skip("PORTABLE_FFN_CASES is not set: the outside cases are not here")
    folder = Path(given)
    if not folder.is_dir():
        pytest.fail(f"PORTABLE_FFN_CASES must name a folder, got {given}", pytrace=False)
    return folder


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """The same numbers in each run and in any order of the tests."""
    random.seed(0)
    np.random.seed(0)
    if importlib.util.find_spec("torch"):
        import torch

        torch.manual_seed(0)
