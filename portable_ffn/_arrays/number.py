"""A number that a caller gives: a float, or an integer such as a size or a seed."""

import math
from typing import Any

from portable_ffn._arrays.errors import refusal


def as_float(name: str, value: Any, at_least: float | None = None) -> float:
    """`value` as a Python float: a NumPy number or a 0-d array would change the dtype of what it meets.

    Raises TypeError for what is no number; text and booleans are none, though Python would take them. Where
    `at_least` is given, ValueError for a number below it or not finite; -inf asks for finite alone.
    """
    if isinstance(value, (bool, str, bytes, bytearray)) or not hasattr(value, "__float__"):
        raise refusal(TypeError, name, f"must be a number, got {value!r}")
    number = float(value)
    if at_least is not None and not (math.isfinite(number) and number >= at_least):
        least = "zero" if at_least == 0 else f"{at_least:g}"
        must = "finite" if at_least == -math.inf else f"finite and {least} or more"
        raise refusal(ValueError, name, f"must be {must}, got {number}")
    return number


def whole(name: str, value: Any, least: int) -> int:
    """`value` as an int; TypeError for what is no whole number, ValueError below the least."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise refusal(TypeError, name, f"must be an integer, got {value!r}")
    if value < least:
        raise refusal(ValueError, name, f"must be {least or 'zero'} or more, got {value}")
    return int(value)
