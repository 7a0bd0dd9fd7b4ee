"""A strict reader of JSON objects, for files that nobody vouches for."""

import json
import math
from collections import Counter
from typing import Any

from portable_ffn.checkpoint._errors import CheckpointError


def parse_object(data: bytes, what: str, *, infinity: bool = False) -> dict[str, Any]:
    """The JSON object in `data`, without duplicate keys and NaN; `what` names its place in the errors."""

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

    def number(text: str) -> float:
        value = float(text)
        if math.isinf(value):
            raise CheckpointError(f"{what}: the number {text[:40]} is beyond float64")
        return value

    try:
        text = data.decode("utf-8")
        found = json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_float=number)
        # Half of a surrogate pair, written as an escape, can't be printed or stand in a path.
        if "\\ud" in text or "\\uD" in text:
            json.dumps(found, ensure_ascii=False).encode("utf-8")
    except CheckpointError:
        raise
    except RecursionError:
        raise CheckpointError(f"{what}: the JSON is nested too deeply") from None
    except ValueError as error:
        # UnicodeError, JSONDecodeError and Python's limit on the digits of an integer are all ValueErrors.
        raise CheckpointError(f"{what} must be JSON in UTF-8: {str(error)[:200]}") from None
    if not isinstance(found, dict):
        raise CheckpointError(f"{what} must be a JSON object, got {type(found).__name__}")
    return found
