"""Both halves of the survey put together: one line a model type."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from portable_ffn.checkpoint._config.spellings import ours
from survey.probe import networks

_NUMBER = re.compile(r"(?:(?<=_)|^)\d+$")
_MAIN = re.compile(r"For[A-Z]|Model$|LMHead|DoubleHeads|Backbone")


def rows_of(model: Any) -> dict[str, list[str] | None]:
    """The networks of a built model: path and first matrix -> the nested config and the key, or "=" and a name."""
    found: dict[str, list[str] | None] = {}
    for candidate, _, said, owner in networks(model):
        name = f"{starred(candidate.parent)}:{candidate.pattern.W1}"
        source = None
        if said is not None and said.startswith("probe:"):
            source = said.removeprefix("probe:").split("|")
        elif said is not None:
            source = [owner, f"={ours(said[1:]) or said[1:]}"]
        if name in found and found[name] != source:
            source = None
        found[name] = source
    return found


def starred(path: str) -> str:
    """A path with its numbers as *, and without the components that only say that a model lies there."""
    return ".".join(_NUMBER.sub("*", part) for part in path.split(".") if part not in ("", "model"))


def is_main(class_name: str) -> bool:
    """Whether a class is a whole model; a part alone is what the end of a path means."""
    return _MAIN.search(class_name) is not None


def assemble(
    facts: Mapping[str, dict[str, Any]],
    built: Mapping[str, Mapping[str, list[str] | None]],
    backbones: Mapping[str, Iterable[str]],
) -> dict[str, dict[str, Any]]:
    """The table."""
    mounts = {model: _mounts(rows) for model, rows in built.items()}
    for model, paths in backbones.items():
        mounts.setdefault(model, {})["backbone_config"] = set(paths)
    parts = _rows_of_parts(facts, built, mounts)
    table: dict[str, dict[str, Any]] = {}
    for model in sorted({*facts, *built}):
        row = dict(facts.get(model, {"defaults": {}}))
        sources: dict[str, list[str]] = defaultdict(list)
        for name, source in sorted((built.get(model) or parts.get(model) or {}).items()):
            if source is not None:
                sources["/".join(word for word in source if word)].append(name)
        if sources:
            row["networks"] = {source: " ".join(names) for source, names in sorted(sources.items())}
        if mounts.get(model):
            row["mounts"] = {part: " ".join(sorted(paths)) for part, paths in sorted(mounts[model].items())}
        table[model] = row
    return table


def _mounts(rows: Mapping[str, list[str] | None]) -> dict[str, set[str]]:
    """The shortest paths under which networks of one nested config lie and no others."""
    paths: dict[str, list[list[str]]] = defaultdict(list)
    for name, source in rows.items():
        if source is not None:
            paths[source[0].split("/")[0]].append(name.partition(":")[0].split("."))
    found: dict[str, set[str]] = defaultdict(set)
    for part, own in paths.items():
        others = [path for other, found_there in paths.items() if other != part for path in found_there]
        for path in own if part else ():
            for length in range(1, len(path)):
                if path[length - 1] == "*":
                    break
                if not any(other[:length] == path[:length] for other in others):
                    found[part].add(".".join(path[:length]))
                    break
    return found


def _rows_of_parts(
    facts: Mapping[str, dict[str, Any]],
    built: Mapping[str, Mapping[str, list[str] | None]],
    mounts: Mapping[str, Mapping[str, set[str]]],
) -> dict[str, dict[str, list[str] | None]]:
    """For config classes that no model stands for: the networks that others have under their mounts."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for model, rows in built.items():
        for name, source in rows.items():
            part = source[0] if source else ""
            for path in mounts[model].get(part, ()):
                kind = facts.get(model, {}).get("parts", {}).get(part)
                if kind and name.startswith(path + "."):
                    assert source is not None
                    found[kind][name[len(path) + 1 :]].add(source[1])
    return {
        kind: {name: ["", sources.pop()] for name, sources in rows.items() if len(sources) == 1}
        for kind, rows in found.items()
    }


def write(table: Mapping[str, Any], path: Path) -> None:
    """One line a model type."""
    lines = (f"{json.dumps(model)}: {json.dumps(row, separators=(',', ':'))}" for model, row in table.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
