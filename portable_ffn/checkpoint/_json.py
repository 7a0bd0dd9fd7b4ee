"""A strict reader of JSON objects, for what comes from files that nobody vouches for."""

import json
import math
from typing import Any

from portable_ffn.checkpoint._errors import CheckpointError


def parse_object(data: bytes, what: str, *, infinity: bool = False) -> dict[str, Any]:
    """The JSON object in `data`; `what` names its place in the errors. No duplicate keys, no NaN."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        # Python keeps the last of two equal keys, other readers the first: the file would mean two things.
        found = dict(items)
        if len(found) != len(items):
            keys = [key for key, _ in items]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise CheckpointError(f"{what}: the key {twice[:200]!r} occurs twice; each may occur once")
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
        if "\\ud" in text or "\\uD" in text:
            json.dumps(found, ensure_ascii=False).encode("utf-8")
    except CheckpointError:
        raise
    except RecursionError:
        raise CheckpointError(f"{what}: the JSON is nested too deeply") from None
    except ValueError as error:
        # UnicodeError, JSONDecodeError, and Python's limit on the digits of an integer are all ValueErrors.
        raise CheckpointError(f"{what} must be JSON in UTF-8: {str(error)[:200]}") from None
    if not isinstance(found, dict):
        raise CheckpointError(f"{what} must be a JSON object, got {type(found).__name__}")
    return found
