"""What each library does faster in its own words. Speed only: with this table emptied every value is the same.

A row takes a network that was validated and promoted, and returns y, or None for a case that it leaves to the
generic path.
"""

from collections.abc import Callable, Mapping
from typing import Any

NATIVE: Mapping[str, Callable[..., Any]] = {}
