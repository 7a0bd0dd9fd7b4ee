"""What the config classes of transformers hold: defaults, keys that feed an attribute, parts and their classes."""

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

from transformers.configuration_utils import PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

from survey.probe import KEY, names_activation, objects
from survey.special import NUMBERS

# Spellings that some classes take for their own key.
_OTHER_KEYS = ("hidden_act", "hidden_activation", "activation_function", "activation", "act_fn")


def classes() -> dict[str, Any]:
    """Every config class, by its model type, or by its own name where it has none."""
    found: dict[str, Any] = {}
    for model_type in CONFIG_MAPPING_NAMES:
        try:
            mapped = CONFIG_MAPPING[model_type]
            module = importlib.import_module(mapped.__module__)
        except Exception as error:
            print(f"{model_type}: {error}")
            continue
        found.setdefault(model_type, mapped)
        for name, inner in vars(module).items():
            own = inspect.isclass(inner) and issubclass(inner, PreTrainedConfig) and inner.__module__ == module.__name__
            if own and inner is not PreTrainedConfig:
                found.setdefault(inner.model_type or name, inner)
    return found


def _made(cls: Any, said: dict[str, Any], *path: str) -> Any:
    """What a config of the class, read from `said`, holds at a path; None where it can't be read."""
    try:
        value = cls.from_dict(dict(said))
        for key in path:
            value = getattr(value, key)
    except Exception:
        return None
    return value


def activations_of(config: Any) -> dict[str, str]:
    """The keys of a config that may name an activation, and what they hold."""
    return {key: value for key, value in vars(config).items() if names_activation(key, value) and len(value) < 40}


def type_of(config: Any) -> str:
    """The name of a config's class in the table."""
    return config.model_type or type(config).__name__


def facts(cls: Any, needed: dict[str, Any]) -> dict[str, Any]:
    """The line of a config class, without its networks; `needed` is what it can't be made without."""
    try:
        base = cls()
    except Exception:
        base = cls(**needed)
    own = activations_of(base)
    numbers = {key: vars(base)[key] for key in NUMBERS if key in vars(base)}
    row: dict[str, Any] = {
        "defaults": own | {key: value for key, value in numbers.items() if value is not None and len(str(value)) < 60}
    }
    keys, gated = {}, ""
    for attribute in own:
        fed = list(_feeding(cls, base, attribute))
        if fed != [attribute] and (fed or attribute.endswith(("act", "activation", "function", "act_fn"))):
            keys[attribute] = " ".join(fed)
        for key in fed:
            if _made(cls, {key: "gated-mish"}, attribute) == "mish":
                gated = _made(cls, {key: "gated-gelu"}, attribute)
    parts, absent, fixed, flat, merged = {}, {}, [], [], {}
    for path, inner in objects(base):
        if len(path) == 1:
            parts[path[0]] = type_of(inner)
        for key, value in activations_of(inner).items() if path else ():
            if type(inner).model_type and activations_of(type(inner)()).get(key) != value:
                absent["/".join((*path, key))] = value
    for part in getattr(cls, "sub_configs", None) or ():
        typeless = _made(cls, {part: {"num_labels": 3}}, part)
        if isinstance(typeless, PreTrainedConfig):
            parts[part] = type_of(typeless)
        given = _made(cls, {part: {"model_type": "bert"}}, part)
        if isinstance(given, PreTrainedConfig) and given.model_type != "bert":
            fixed.append(part)
        for key in activations_of(typeless) if isinstance(typeless, PreTrainedConfig) else ():
            if _made(cls, {key: "mish"}, part, key) == "mish" and not getattr(base, key, None):
                flat.append(part)
            if _made(cls, {part: {key: "relu"}, f"{part}_dict": {key: "tanh"}}, part, key) == "tanh":
                merged[part] = True
    words = {
        "fixed": " ".join(sorted(fixed)),
        "flat": " ".join(sorted(set(flat))),
        "merged": " ".join(sorted(merged)),
        "gated_gelu": gated,
    }
    row |= {key: value for key, value in {"keys": keys, "parts": parts, "absent": absent, **words}.items() if value}
    return row


def _feeding(cls: Any, base: Any, attribute: str) -> Iterator[str]:
    """The keys of a config.json that an attribute is taken from, the one that wins over the others first."""
    keys = {*vars(base), *_OTHER_KEYS, *(getattr(cls, "attribute_map", None) or ())}
    for ancestor in cls.__mro__:
        keys |= set(getattr(ancestor, "__annotations__", {}))
    fed = [key for key in sorted(keys) if KEY.search(key) and _made(cls, {key: "mish"}, attribute) == "mish"]
    wins = {key: sum(_made(cls, {key: "mish", other: "tanh"}, attribute) == "mish" for other in fed) for key in fed}
    return iter(sorted(fed, key=lambda key: -wins[key]))
