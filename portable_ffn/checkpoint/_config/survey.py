"""What was surveyed of each model type: which key its networks read, in which config, and what each key defaults to.

`survey.json` holds one line a model type, as `ci/families.py` derives it from the code of transformers 5.24: each
family was built with a probe under every key that may name an activation, and the probes were looked for in its
networks.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple


class Survey(NamedTuple):
    """One model type.

    Attributes
    ----------
    defaults : mapping of str to value
        What the config class holds under a key of which a config says nothing.
    keys : mapping of str to tuple of str
        An attribute that the code reads, and the keys of a config that it is taken from, the first there winning;
        only where these are not the attribute alone.
    gated_gelu : str
        What the key's "gated-gelu" means; "" where such words have no meaning of their own.
    parts : mapping of str to str
        Keys of nested configs, and the model type of each where it names none.
    absent : mapping of str to str
        "part/key" and what it is where the whole part is absent, if not the part's own default.
    fixed : frozenset of str
        Nested configs that are of the class of `parts` whatever model type they name.
    flat : frozenset of str
        Nested configs for which the keys of the config round them stand where they are absent.
    merged : frozenset of str
        Nested configs that another under the key + "_dict" replaces.
    networks : mapping of str to str
        A network's path, numbers as * and components "model" left out, ":" and its first matrix, and what its
        activation is: a key, or "=" and the activation that the code fixes, after the nested config's key and "/".
    mounts : mapping of str to tuple of str
        Nested configs, and the paths under which their networks and no others lie.
    words : frozenset of str
        The words of the model type: a model with a head calls the one below it by some of them.
    """

    defaults: Mapping[str, Any]
    keys: Mapping[str, tuple[str, ...]]
    gated_gelu: str
    parts: Mapping[str, str]
    absent: Mapping[str, str]
    fixed: frozenset[str]
    flat: frozenset[str]
    merged: frozenset[str]
    networks: Mapping[str, str]
    mounts: Mapping[str, tuple[str, ...]]
    words: frozenset[str]


@cache
def surveys() -> Mapping[str, Survey]:
    """Every model type that was surveyed."""
    text = files(__package__).joinpath("survey.json").read_text(encoding="utf-8")
    return MappingProxyType({model: _row(model, said) for model, said in json.loads(text).items()})


def surveyed(model_type: object) -> bool:
    """Whether a model type was surveyed."""
    return isinstance(model_type, str) and model_type in surveys()


def has_networks(model_type: object) -> bool:
    """Whether a model type was surveyed and could be built, so that the paths of its networks are known."""
    return isinstance(model_type, str) and surveyed(model_type) and bool(surveys()[model_type].networks)


def _row(model: str, said: Mapping[str, Any]) -> Survey:
    """A line of the table."""
    return Survey(
        defaults=said.get("defaults", {}),
        keys={key: tuple(names.split()) for key, names in said.get("keys", {}).items()},
        gated_gelu=said.get("gated_gelu", ""),
        parts=said.get("parts", {}),
        absent=said.get("absent", {}),
        fixed=frozenset(said.get("fixed", "").split()),
        flat=frozenset(said.get("flat", "").split()),
        merged=frozenset(said.get("merged", "").split()),
        networks={name: source for source, names in said.get("networks", {}).items() for name in names.split()},
        mounts={part: tuple(paths.split()) for part, paths in said.get("mounts", {}).items()},
        words=frozenset(model.replace("-", "_").split("_")),
    )
