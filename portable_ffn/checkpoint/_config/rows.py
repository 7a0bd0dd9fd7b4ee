"""Which row of a model type's survey a path means: the whole of it, its end, or the part of the model it lies in."""

import re
from collections.abc import Sequence

from portable_ffn.checkpoint._config.survey import Survey

# What a wrapper may put before a model's own path can't be one of these: they name another part than was looked up.
_PART = re.compile(
    r"vis|vit\b|image|img|pixel|audio|speech|acoustic|text|lang|llm|encoder|decoder|tower|backbone|qformer|perceiver|"
    r"resampl|project|adapt|video|codec|head|expert|draft|mtp|branch|connector"
)
# 3, and the number of layers_3.
_NUMBER = re.compile(r"(?:(?<=_)|^)\d+$")


def components(path: str) -> list[str]:
    """The components of a path as the survey has them."""
    return [_NUMBER.sub("*", part) for part in path.split(".") if part not in ("", "model")]


def exact_row(survey: Survey, parts: Sequence[str], first: str) -> str | None:
    """The row of the whole path, whatever a wrapper has put before it."""
    for start in range(len(parts)):
        row = survey.networks.get(f"{'.'.join(parts[start:])}:{first}")
        if row is not None:
            return None if any(_names_a_part(word, survey) for word in parts[:start]) else row
    return None


def mount_of(survey: Survey, parts: Sequence[str]) -> tuple[str, list[str]] | None:
    """The nested config under whose path the network lies, and the rest of its path."""
    best: tuple[int, str, list[str]] | None = None
    for part, paths in survey.mounts.items():
        for path in paths:
            words = path.split(".")
            for start in range(len(parts) - len(words) + 1):
                if list(parts[start : start + len(words)]) == words and not any(
                    _names_a_part(word, survey) for word in parts[:start]
                ):
                    if best is None or len(words) > best[0]:
                        best = len(words), part, list(parts[start + len(words) :])
                    break
    return None if best is None else best[1:]


def shortened_row(survey: Survey, parts: Sequence[str], first: str) -> str | None:
    """The row that all networks agree on of whose path this may be the end."""
    end = f"{'.'.join(parts)}:{first}"
    rows = {row for name, row in survey.networks.items() if name == end or name.endswith("." + end) or not parts}
    return rows.pop() if len(rows) == 1 else None


def only_row(survey: Survey, parts: Sequence[str]) -> str | None:
    """The row of a model type whose networks all agree, for a path that names no part which they don't name."""
    rows = set(survey.networks.values())
    words = {word for name in survey.networks for word in name.partition(":")[0].split(".")}
    if len(rows) != 1 or any(word not in words and word != "*" and _names_a_part(word, survey) for word in parts):
        return None
    return rows.pop()


def _names_a_part(word: str, survey: Survey) -> bool:
    """Whether a component of a path says that it is another part's, or a layer's, and no wrapper's."""
    return word == "*" or (_PART.search(word) is not None and not survey.words.issuperset(word.split("_")))
