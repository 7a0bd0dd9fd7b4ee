"""Which part of a config speaks for a layer: a model of several stacks has a config for each, nested in one."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from portable_ffn.checkpoint._config.survey import surveys
from portable_ffn.checkpoint._errors import CheckpointError

# One idea, many words: a path and a config are compared after these are made one.
_SAME = {
    "visual": "vision",
    "image": "vision",
    "vit": "vision",
    "img": "vision",
    "language": "text",
    "llm": "text",
    "lm": "text",
    "llama": "text",
    "speech": "audio",
    "acoustic": "audio",
    "perception": "audio",
    "perciever": "perceiver",
    "prompts": "prompt",
    "det": "detr",
}
# Paths that a config calls otherwise.
_ALIASES = ((re.compile(r"pixel_level_module\.encoder"), "backbone"),)
_NOISE = frozenset({"config", "model", "hf", "cfg", "word"})
# A config with one of these describes a network of its own, so it is not merely a frame round a text model's.
_WIDTHS = ("hidden_size", "d_model", "n_embd")
_MODALITIES = frozenset({"vision", "audio", "text", "video"})
# Words of a path that say that a part of another kind than the text model's is there, with a config of its own.
_TOWERS = frozenset(
    {"vision", "visual", "image", "audio", "speech", "video", "tower", "qformer", "perceiver", "resampler", "mask"}
)
_SPLIT = re.compile(r"[._\-]|(?<=[a-z])(?=[A-Z])")


def words(path: str) -> tuple[str, ...]:
    """The words of a dotted path or key, synonyms made one."""
    found = (word.lower() for word in _SPLIT.split(path) if word)
    return tuple(_SAME.get(word, word) for word in found if not word.isdigit())


@dataclass(frozen=True, slots=True)
class Scope:
    """A config and those it lies in, innermost first, as they apply to one layer."""

    chain: tuple[Mapping[str, Any], ...]
    names: tuple[str, ...]
    types: tuple[str, ...] = ()

    @property
    def model_types(self) -> tuple[str, ...]:
        """The model types, innermost first: those that were found out, else those that the configs name."""
        if self.types:
            return self.types
        found = (config.get("model_type") for config in self.chain)
        return tuple(model_type for model_type in found if isinstance(model_type, str))

    def get(self, *keys: str, outer: bool = True) -> Any:
        """The first of `keys` that a config of the chain holds and that is not null."""
        for config in self.chain if outer else self.chain[:1]:
            for key in keys:
                value = config.get(key)
                if value is not None:
                    return value
        return None

    def number(self, key: str, layer: int | None = None) -> float | None:
        """The number under a key, or the layer's where the key holds a list; None where there is none.

        What the class of a config holds where it is silent comes before what a config round it says.

        Raises CheckpointError where it is no finite number.
        """
        value = self.value(key)
        if layer is not None and isinstance(value, list):
            value = value[layer] if 0 <= layer < len(value) else None
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
            raise CheckpointError(f"{key} of {self.label} must be a finite number, got {str(value)[:80]!r}")
        return float(value)

    def value(self, key: str) -> Any:
        """What the innermost config that knows a key says, or what its class holds."""
        for config, model_type in zip_longest(self.chain, self.types):
            value = config.get(key)
            if value is None and model_type in surveys():
                value = surveys()[model_type].defaults.get(key)
            if value is not None:
                return value
        return None

    @property
    def says_text(self) -> bool:
        """Whether the path was taken for a text model's, or for the text half of an encoder or decoder."""
        return bool(self.names) and "text" in words(self.names[-1])

    def speaks_for(self, path: str) -> bool:
        """Whether a config of the part that a path names was found, where it names a tower of its own."""
        named = {word for name in self.names for word in _SPLIT.split(name)}
        return not {word for word in _SPLIT.split(path) if word in _TOWERS} - named

    @property
    def label(self) -> str:
        """How a message calls the innermost config."""
        return ".".join(self.names) or "config"


def _children(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Nested configs: dictionaries that describe a network rather than, say, a rope scaling."""
    for key, value in config.items():
        if isinstance(value, Mapping) and (key.endswith("config") or "model_type" in value):
            yield key, value


def scope_of(config: Mapping[str, Any], path: str, more: str = "") -> Scope:
    """The configs that apply to the layer at `path`, which `more` has further words for.

    A nested config applies where the words of its key are words of the path; a text config also where the path
    names no other stack.
    """
    order = (*path_words(path), *more.split())
    have = set(order)
    chain: list[Mapping[str, Any]] = [config]
    names: list[str] = []
    while True:
        # The most words in common win, then the one whose model type is named as well, then the one named first.
        best: tuple[int, int, int, str, Mapping[str, Any]] | None = None
        for key, child in _children(chain[0]):
            need = [word for word in words(key) if word not in _NOISE]
            if need and _fits(need, have):
                where = min((order.index(word) for word in need if word in have), default=len(order))
                score = (len(need), _type_words(child, have), -where)
                if best is None or score > best[:3]:
                    best = *score, key, child
        if best is None:
            best = _text_by_default(chain[0], have)
        if best is None:
            return Scope(tuple(chain), tuple(names))
        chain.insert(0, best[4])
        names.append(best[3])


def path_words(path: str) -> tuple[str, ...]:
    """The words of a layer's path, with those that configs use for it."""
    return (*words(path), *(alias for pattern, alias in _ALIASES if pattern.search(path)))


def _fits(need: list[str], have: set[str]) -> bool:
    """Whether all words of a config's key are in the path; a video is seen as well."""
    return all(word in have or (word == "vision" and "video" in have) for word in need)


def _text_by_default(config: Mapping[str, Any], have: set[str]) -> tuple[int, int, int, str, Mapping[str, Any]] | None:
    """The text config, where the config describes nothing itself and the path names no other stack."""
    if any(isinstance(config.get(key), int) for key in _WIDTHS) or have & (_MODALITIES - {"text"}):
        return None
    children = list(_children(config))
    if any(_claims(key, have) for key, _ in children):
        return None
    for key, child in children:
        if [word for word in words(key) if word not in _NOISE] == ["text"]:
            return 0, 0, 0, key, child
    return None


def _type_words(config: Mapping[str, Any], have: set[str]) -> int:
    """How many words of a config's model type the path has."""
    model_type = config.get("model_type")
    return sum(word in have for word in words(model_type)) if isinstance(model_type, str) else 0


def _claims(key: str, have: set[str]) -> bool:
    """Whether a nested config's key shares a word with the path, so that the text config is not the default."""
    return any(word in have for word in words(key) if word not in _NOISE | {"text", "encoder", "decoder"})
