"""A number that a caller gives, as a Python float."""

from typing import Any


def as_float(name: str, value: Any) -> float:
    """`value` as a Python float: a NumPy number or a 0-d array would change the dtype of what it meets.

    Raises TypeError for what is no number; text and booleans are none, though Python would take them.
    """
    if isinstance(value, (bool, str, bytes, bytearray)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number, got {value!r}")
    return float(value)
