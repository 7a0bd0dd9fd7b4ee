"""Where a network's activation is said: which config is its own, and which key its code reads there.

A part of a model has a config of its own, of a class of its own with its own defaults, and what another part's config
says is not its. So the layer's path is looked up among those that the survey found for the model type, and nothing is
said where it isn't found or could be two things.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from portable_ffn.checkpoint._config.rows import components, exact_row, mount_of, only_row, shortened_row
from portable_ffn.checkpoint._config.scope import Scope
from portable_ffn.checkpoint._config.survey import surveys

_ABSENT: Mapping[str, Any] = {}


class Source(NamedTuple):
    """The configs that a layer lies in, outermost first, and what says its activation.

    Attributes
    ----------
    configs : tuple of mapping
        From the outermost to the layer's own; an absent one is empty.
    names, types : tuple of str
        The keys of the nested ones, and the model types of all.
    key : str
        The attribute that the code reads, or "" where `fixed`.
    fixed : str
        The activation that the code fixes, or "".
    absent : str or None
        The default where the layer's own config is absent altogether and that differs from its class's.
    """

    configs: tuple[Mapping[str, Any], ...]
    names: tuple[str, ...]
    types: tuple[str, ...]
    key: str
    fixed: str = ""
    absent: str | None = None

    @property
    def label(self) -> str:
        """How a message calls the layer's own config."""
        return ".".join(self.names) or "config"

    @property
    def gated_gelu(self) -> str:
        """What "gated-gelu" means in the layer's own config."""
        return surveys()[self.types[-1]].gated_gelu

    def said(self) -> tuple[str, Any] | None:
        """The key and the value that the layer's own config has for its activation; None where it says nothing."""
        own = self.configs[-1]
        for name in surveys()[self.types[-1]].keys.get(self.key, (self.key,)):
            value = own.get(name)
            if value is not None and value != "":
                return name, value
        return None

    def default(self) -> Any:
        """What the part's class holds where the config says nothing; None where that isn't known."""
        return self.absent if self.absent is not None else surveys()[self.types[-1]].defaults.get(self.key)


def source_of(config: Mapping[str, Any], path: str, first: str) -> Source | None:
    """Where the activation of the network at `path` is said, `first` being its first matrix's name.

    None where the model type was not surveyed, or its networks have no such path, or the path may be two networks'.
    """
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or model_type not in surveys():
        return None
    return _located((config,), (), (model_type,), components(path), first)


def source_within(scope: Scope, path: str, first: str) -> Source | None:
    """The same where only the innermost of several configs is of a model type that was surveyed."""
    model_type = scope.chain[0].get("model_type")
    if not scope.names or not isinstance(model_type, str) or model_type not in surveys():
        return None
    survey = surveys()[model_type]
    parts = components(path)
    rows = {survey.networks.get(f"{'.'.join(parts[start:])}:{first}") for start in range(len(parts))} - {None}
    row = rows.pop() if len(rows) == 1 else only_row(survey, ())
    if row is None or "/" in row:
        return None
    types = tuple(str(config.get("model_type")) for config in reversed(scope.chain))
    return _made(scope.chain[::-1], scope.names, types, row)


def _located(
    configs: tuple[Mapping[str, Any], ...],
    names: tuple[str, ...],
    types: tuple[str, ...],
    parts: Sequence[str],
    first: str,
) -> Source | None:
    """The source of a network of the innermost of these configs, or of one nested in it."""
    survey = surveys()[types[-1]]
    sources = exact_row(survey, parts, first)
    if sources is None:
        inner = mount_of(survey, parts)
        if inner is not None:
            part, rest = inner
            return _inside(configs, names, types, (part,), rest, first)
        sources = shortened_row(survey, parts, first) or only_row(survey, parts)
    if sources is None:
        return None
    *nested, last = sources.split("/")
    for depth, part in enumerate(nested):
        child = _child(configs[-1], part, types[-1])
        outer = surveys()[types[-1]]
        expected = outer.parts.get(part)
        if _part_type(child, part, types[-1]) != expected:
            inner = mount_of(surveys()[types[-1]], parts)
            rest = inner[1] if inner is not None and inner[0] == part else list(parts)
            return _inside(configs, names, types, tuple(nested[depth : depth + 1]), rest, first)
        if expected is None or expected not in surveys():
            return None
        absent = surveys()[types[-1]].absent.get("/".join((*nested[depth:], last))) if child is None else None
        if child is None and part in outer.flat:
            child = configs[-1]
        configs, names, types = (*configs, child or _ABSENT), (*names, part), (*types, expected)
        if child is None:
            for deeper in nested[depth + 1 :]:
                expected = surveys()[types[-1]].parts.get(deeper)
                if expected is None or expected not in surveys():
                    return None
                configs, names, types = (*configs, _ABSENT), (*names, deeper), (*types, expected)
            return _made(configs, names, types, last, absent)
    return _made(configs, names, types, last)


def _made(
    configs: tuple[Mapping[str, Any], ...],
    names: tuple[str, ...],
    types: tuple[str, ...],
    last: str,
    absent: str | None = None,
) -> Source:
    """The source that a row's last word says."""
    if last.startswith("="):
        return Source(configs, names, types, "", last[1:])
    return Source(configs, names, types, last, "", absent)


def _inside(
    configs: tuple[Mapping[str, Any], ...],
    names: tuple[str, ...],
    types: tuple[str, ...],
    nested: tuple[str, ...],
    parts: Sequence[str],
    first: str,
) -> Source | None:
    """The source of a network of a nested config, by the model type that this has."""
    for part in nested:
        child = _child(configs[-1], part, types[-1])
        model_type = _part_type(child, part, types[-1])
        if model_type is None or model_type not in surveys():
            return None
        configs, names, types = (*configs, child or _ABSENT), (*names, part), (*types, model_type)
    return _located(configs, names, types, parts, first)


def _child(config: Mapping[str, Any], part: str, model_type: str) -> Mapping[str, Any] | None:
    """A nested config; CLIP's line has another under its key + "_dict", which replaces it."""
    if part in surveys()[model_type].merged:
        wins = config.get(f"{part}_dict")
        if isinstance(wins, Mapping):
            return wins
    child = config.get(part)
    return child if isinstance(child, Mapping) else None


def _part_type(child: Mapping[str, Any] | None, part: str, outer: str) -> str | None:
    """The model type of a nested config: its own, that of the one class it can be, or the default."""
    survey = surveys()[outer]
    given = child.get("model_type") if child and part not in survey.fixed else None
    # Old checkpoints give a part the model type of the whole.
    return given if isinstance(given, str) and given not in ("", outer) else survey.parts.get(part)
