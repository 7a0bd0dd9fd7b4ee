"""Checking feed-forward networks on every array library: the table of backends and the one comparison."""

from portable_ffn.testing._backends import BACKENDS, Backend
from portable_ffn.testing._compare import Agreement, assert_agrees, compare

__all__ = ["BACKENDS", "Agreement", "Backend", "assert_agrees", "compare"]
