"""A whole number that a caller gives: a size or a seed."""

from typing import Any


def whole(name: str, value: Any, least: int) -> int:
    """`value` as an int; TypeError for what is no whole number, ValueError below the least."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be {least} or more, got {value}")
    return int(value)
