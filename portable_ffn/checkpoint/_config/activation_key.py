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
# Qualifiers of what is no feed-forward network of a layer.
_OTHER_PARTS = frozenset(
    {
        "pooler",
        "pooling",
        "feat",
        "extract",
        "summary",
        "classifier",
        "classification",
        "projector",
        "projection",
        "adaptor",
        "conv",
        "mamba",
        "stem",
        "head",
        "readout",
        "output",
        "gate",
        "mask",
        "fuser",
        "downsampler",
    }
)
# OpenAI's first GPT alone has this key, and means the tanh form by "gelu".
_TANH_KEYS = frozenset(["afn"])


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


def read_value(key: str, value: Any, gated_gelu: str = "gelu_new") -> ConfigActivation:
    """A value as a name of ours; T5's gated-gelu says that the network is gated as well.

    `gated_gelu` is what the family takes "gated-gelu" for.
    """
    return _read(key, _value(value) or str(value), 0, gated_gelu or "gelu_new")


def _read(key: str, value: str, fit: int, gated_gelu: str = "gelu_new") -> ConfigActivation:
    """As `read_value`, of a string, with how well its key fits."""
    word = value.strip().lower().replace("_", "-")
    if word.startswith("gated-"):
        inner = word.removeprefix("gated-")
        # "gated-gelu" of T5 v1.1 is the tanh form (t5x's own jax.nn.gelu; the library says gelu_new).
        return ConfigActivation(key, value, ours(gated_gelu if inner == "gelu" else inner), fit, inner == "gelu")
    if word in GATED_WORDS:
        return ConfigActivation(key, value, GATED_WORDS[word], fit, word == "geglu")
    return ConfigActivation(key, value, ours(value), fit, key in _TANH_KEYS and word == "gelu")


def named_activations(scope: Scope, path: str) -> list[ConfigActivation]:
    """The keys of the layer's own config that may name its activation, where the model type isn't known.

    A key whose other words are the path's is meant, and no other; where none is, all that say nothing of another part
    are, and it is undecided where they differ. What a config round the layer's own says is another part's, so it isn't
    looked at.
    """
    have = set(path_words(path))
    config = scope.chain[0]
    found: list[tuple[int, ConfigActivation]] = []
    for key, raw in (*config.items(), *_ffn_config(config)):
        match = _KEY.match(key.rpartition(".")[2])
        value = _value(raw) if match else None
        if match is None or value is None:
            continue
        need = [word for word in words(match["before"] or "") if word not in _NETWORK]
        if not _OTHER_PARTS.isdisjoint(need):
            continue
        fit = len(need) if all(word in have for word in need) else -1
        found.append((fit, _read(key, value, fit)))
    best = max((fit for fit, _ in found), default=0)
    # dense_act_fn is what T5's feed_forward_proj was read as, so it wins over it.
    dense = [one for _, one in found if one.key == "dense_act_fn"]
    return dense or [one for fit, one in found if fit == best or best <= 0]


def _ffn_config(config: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The keys of DBRX's config of its networks."""
    nested = config.get("ffn_config")
    return [(f"ffn_config.{key}", value) for key, value in nested.items()] if isinstance(nested, Mapping) else []
