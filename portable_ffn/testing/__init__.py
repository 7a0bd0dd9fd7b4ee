"""Checking feed-forward networks, anybody's, on every array library.

    from portable_ffn.testing import check
    check(my_network, activation="gelu", backends="torch").raise_if_failed()

NumPy comes with the first name that is asked for, so that the pytest plugin in here costs nothing where it is not used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portable_ffn.testing._backends.table import BACKENDS, Backend
    from portable_ffn.testing._check import check
    from portable_ffn.testing._check_model import check_model
    from portable_ffn.testing._compare_models import compare_models
    from portable_ffn.testing._measure.compare import Agreement, assert_agrees, compare
    from portable_ffn.testing._models.comparison import Comparison
    from portable_ffn.testing._models.layer import Layer
    from portable_ffn.testing._report.report import Report
    from portable_ffn.testing._report.rows import Row

__all__ = [
    "BACKENDS",
    "Agreement",
    "Backend",
    "Comparison",
    "Layer",
    "Report",
    "Row",
    "assert_agrees",
    "check",
    "check_model",
    "compare",
    "compare_models",
]

_ROOMS = {
    "BACKENDS": "_backends.table",
    "Backend": "_backends.table",
    "check": "_check",
    "Agreement": "_measure.compare",
    "assert_agrees": "_measure.compare",
    "compare": "_measure.compare",
    "compare_models": "_compare_models",
    "Comparison": "_models.comparison",
    "Layer": "_models.layer",
    "check_model": "_check_model",
    "Report": "_report.report",
    "Row": "_report.rows",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_ROOMS[name]}"), name)


def __dir__() -> list[str]:
    return __all__
