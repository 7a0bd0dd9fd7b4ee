"""Checking feed-forward networks, anybody's, on every array library.

    from portable_ffn.testing import check
    check(my_network, activation="gelu", backends="torch").raise_if_failed()

NumPy comes with the first name that is asked for, so that the pytest plugin in here costs nothing where it is not used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portable_ffn.testing._backends import BACKENDS, Backend
    from portable_ffn.testing._check import check
    from portable_ffn.testing._compare import Agreement, assert_agrees, compare
    from portable_ffn.testing._compare_models import compare_models
    from portable_ffn.testing._layers import Comparison, Layer
    from portable_ffn.testing._model import check_model
    from portable_ffn.testing._report import Report, Row

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
    "BACKENDS": "_backends",
    "Backend": "_backends",
    "check": "_check",
    "Agreement": "_compare",
    "assert_agrees": "_compare",
    "compare": "_compare",
    "compare_models": "_compare_models",
    "Comparison": "_layers",
    "Layer": "_layers",
    "check_model": "_model",
    "Report": "_report",
    "Row": "_report",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_ROOMS[name]}"), name)
