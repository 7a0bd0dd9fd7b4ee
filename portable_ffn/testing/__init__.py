"""Checking feed-forward networks, anybody's, on every array library.

from portable_ffn.testing import check
check(my_network, activation="gelu", backends="torch").raise_if_failed()
"""

from portable_ffn.testing._backends import BACKENDS, Backend
from portable_ffn.testing._check import check
from portable_ffn.testing._compare import Agreement, assert_agrees, compare
from portable_ffn.testing._report import Report, Row

__all__ = ["BACKENDS", "Agreement", "Backend", "Report", "Row", "assert_agrees", "check", "compare"]
