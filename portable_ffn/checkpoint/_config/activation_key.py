"""Which key of a config names a layer's activation: the one whose other words are the path's."""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from portable_ffn.checkpoint._config.scope import Scope, path_words, words
from portable_ffn.checkpoint._config.spellings import GATED_WORDS, ours

# mlp_hidden_act, encoder_activation_function, dense_act_fn, activation ...: words before the ending qualify it.
_KEY = re.compile(
    r"^(?:(?P<before>[a-z0-9_]*?)_)?(?:hidden_act|hidden_activation|activation_function|"
    r"hidden_act_fn|activation_fn|act_fn|activation|act|afn|hidden_actfn|act_type|"
    r"feed_forward_proj|ffn_activation|feedforward_activation)$"
)
# Qualifiers that mean the feed-forward network itself.
_NETWORK = frozenset(["mlp", "ffn", "ff", "dense", "feed", "forward", "feedforward", "hidden", "glu"])


class ConfigActivation(NamedTuple):
    """An activation as a config names it: the key, its value, ours (None where unknown), and how closely it fits.

    `vague` says that the word is also used for another activation, by families that are not known.
    """

    key: str
    value: str
    ours: str | None
    fit: int
    vague: bool = False


def _value(value: Any) -> str | None:
    """The name in a value: a string, or the "name" of DBRX's kind of dictionary; None where nothing is said.

    Anything else stays as it is written: it is no name that is known, and no silence either.
    """
    if isinstance(value, Mapping) and "name" in value:
        value = value["name"]
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else json.dumps(value)


def _read(key: str, value: str, fit: int) -> ConfigActivation:
    """A value as a name of ours; T5's gated-gelu says that the network is gated as well."""
    word = value.strip().lower().replace("_", "-")
    if word.startswith("gated-"):
        inner = word.removeprefix("gated-")
        # "gated-gelu" of T5 v1.1 is the tanh form (t5x's own jax.nn.gelu; the library says gelu_new).
        return ConfigActivation(key, value, "gelu_tanh" if inner == "gelu" else ours(inner), fit, inner == "gelu")
    if word in GATED_WORDS:
        return ConfigActivation(key, value, GATED_WORDS[word], fit, word == "geglu")
    return ConfigActivation(key, value, ours(value), fit)


def named_activations(scope: Scope, path: str) -> list[ConfigActivation]:
    """The activation keys that fit the layer at `path` best; several only where they fit equally well."""
    have = set(path_words(path))
    for config in scope.chain:
        found: list[ConfigActivation] = []
        for key, raw in config.items():
            match = _KEY.match(key)
            value = _value(raw) if match else None
            if match is None or value is None:
                continue
            need = [word for word in words(match["before"] or "") if word not in _NETWORK]
            if all(word in have for word in need):
                found.append(_read(key, value, len(need)))
        nested = config.get("ffn_config")
        if isinstance(nested, Mapping):
            found += [
                _read(f"ffn_config.{key}", value, 0)
                for key, raw in nested.items()
                if _KEY.match(key) and (value := _value(raw))
            ]
        if found:
            best = max(named.fit for named in found)
            chosen = [named for named in found if named.fit == best]
            # dense_act_fn is what T5's feed_forward_proj was read as, so it wins over it.
            return [named for named in chosen if named.key == "dense_act_fn"] or chosen
    return []
