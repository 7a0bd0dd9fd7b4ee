"""A strict reader of JSON objects, for files that nobody vouches for."""

import json
import math
import re
from collections import Counter
from typing import Any, Final

from portable_ffn.checkpoint._errors import CheckpointError

VALUES: Final = 2_000_000
"""Values and keys of one JSON text, counted by their punctuation. A header has twelve for a tensor."""
DEPTH: Final = 64
"""Objects and lists inside each other; the configs of published models have six."""
_DIGITS: Final = 300  # of a number: more are beyond float64, or of no use


def parse_object(data: bytes, what: str, *, infinity: bool = False, values: int = VALUES) -> dict[str, Any]:
    """The JSON object in `data`, without duplicate keys and NaN; `what` names its place in the errors.

    What no model needs is refused before it is parsed: Python's objects take many times the room of their text.
    """

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        # Python keeps the last of two equal keys, other readers the first: the file would mean two things.
        if len(found) != len(items):
            ((key, _),) = Counter(key for key, _ in items).most_common(1)
            raise CheckpointError(f"{what}: the key {key[:200]!r} stands twice in one object; it must stand once")
        return found

    def constant(text: str) -> float:
        if infinity and text != "NaN":
            return float(text.replace("Infinity", "inf"))
        raise CheckpointError(f"{what}: {text} is not JSON")

    def short(text: str) -> str:
        if len(text) > _DIGITS:
            raise CheckpointError(f"{what} must be JSON with numbers of {_DIGITS} digits at most, got {len(text)}")
        return text

    def number(text: str) -> float:
        value = float(short(text))
        if math.isinf(value):
            raise CheckpointError(f"{what}: the number {text[:40]} is beyond float64")
        return value

    def whole(text: str) -> int:
        return int(short(text))

    _refuse_size(data, what, values)
    try:
        text = data.decode("utf-8")
        del data
        found = json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_float=number, parse_int=whole)
        # Half of a surrogate pair, written as an escape, can't be printed or stand in a path.
        halves = "\\ud" in text or "\\uD" in text
        del text
        _refuse_depth(found, what, halves)
    except CheckpointError:
        raise
    except RecursionError:
        raise CheckpointError(f"{what}: the JSON is nested too deeply") from None
    except ValueError as error:
        # UnicodeError and JSONDecodeError are both ValueErrors.
        raise CheckpointError(f"{what} must be JSON in UTF-8: {str(error)[:200]}") from None
    if not isinstance(found, dict):
        raise CheckpointError(f"{what} must be a JSON object, got {type(found).__name__}")
    return found


def _refuse_size(data: bytes, what: str, values: int) -> None:
    """CheckpointError for a text of more values than any model has, or one that takes too much room as text."""
    count = sum(data.count(mark) for mark in (b",", b":", b"[", b"{"))
    if count > values:
        raise CheckpointError(f"{what}: the JSON has {count} values and keys; {values} are the limit")
    # One character outside ASCII makes Python keep every character in two bytes, or in four.
    width = 1 if data.isascii() else 4 if re.search(rb"[\xf0-\xff]", data) else 2
    if len(data) * width > 100_000_000:
        raise CheckpointError(f"{what}: {len(data)} bytes of JSON outside ASCII; {100_000_000 // width} are the limit")


def _refuse_depth(found: Any, what: str, halves: bool) -> None:
    """CheckpointError for what is nested too deeply; for half a surrogate pair where `halves` asks to look for it."""
    level = [found]
    for _ in range(DEPTH):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner += value.values()
                if halves:
                    inner += value
            elif isinstance(value, list):
                inner += value
            elif halves and isinstance(value, str):
                value.encode("utf-8")
        level = inner
        if not level:
            return
    raise CheckpointError(f"{what}: the JSON is nested too deeply; {DEPTH} levels are the limit")
