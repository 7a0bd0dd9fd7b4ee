"""What a checkpoint's config says of its quantisation: the tool, and the settings of each layer."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from portable_ffn.checkpoint._errors import CheckpointError

# A tool by several names.
_SAME: Final = {
    "auto_gptq": "gptq",
    "autogptq": "gptq",
    "intel/auto-round": "auto-round",
    "auto_round": "auto-round",
    "autoround": "auto-round",
    "compressed_tensors": "compressed-tensors",
    "modelopt_fp4": "modelopt",
    "modelopt_mixed": "modelopt",
    "bitsandbytes_4bit": "bitsandbytes",
    "bitsandbytes_8bit": "bitsandbytes",
    "bnb": "bitsandbytes",
}


class Scheme(NamedTuple):
    """The tool's name in lower case, None where nothing is said, and its settings as they stand in the config."""

    method: str | None
    settings: Mapping[str, Any]

    def number(self, *keys: str) -> int | None:
        """The first of the keys that holds a whole number."""
        for key in keys:
            value = self.settings.get(key)
            if type(value) is int:
                return value
        return None

    def text(self, *keys: str) -> str:
        """The first of the keys that holds a text, in lower case; empty where none does."""
        for key in keys:
            value = self.settings.get(key)
            if isinstance(value, str) and value:
                return value.lower()
        return ""

    def at(self, layer: str) -> "Scheme":
        """The settings that hold for one layer: an entry under its own name wins (MLX, auto-round's extra_config)."""
        own = self.settings.get(layer)
        extra = self.settings.get("extra_config")
        if own is None and isinstance(extra, Mapping):
            own = extra.get(layer)
        return self._replace(settings={**self.settings, **own}) if isinstance(own, Mapping) else self

    def weights_of(self, layer: str) -> Mapping[str, Any]:
        """compressed-tensors: what `config_groups` says of the weights of a layer, by name, else by kind of module."""
        groups = self.settings.get("config_groups")
        fallback: Mapping[str, Any] = {}
        for group in groups.values() if isinstance(groups, Mapping) else ():
            if not isinstance(group, Mapping) or not isinstance(group.get("weights"), Mapping):
                continue
            found = {**group["weights"], "format": group.get("format")}
            targets = group.get("targets")
            for target in targets if isinstance(targets, list) else ():
                if not isinstance(target, str):
                    continue
                if _names(target, layer):
                    return found
                fallback = fallback or (found if "." not in target and not target.startswith("re:") else {})
        return fallback


def _names(target: str, layer: str) -> bool:
    """Whether a target is a layer's name or a pattern of it."""
    if not target.startswith("re:"):
        return target == layer
    pattern = target[3:]
    try:
        return _quick(pattern, layer) and bool(re.match(pattern, layer))
    except (re.error, OverflowError, RecursionError):
        return False


def _quick(pattern: str, layer: str) -> bool:
    """Whether a pattern out of a file can be matched in a moment: it repeats no group, and few things without end."""
    if len(pattern) > 300 or re.search(r"\)[+*{]|\\[1-9]|\(\?", pattern.replace("(?:", "(")):
        return False
    endless = len(re.findall(r"[+*]|,\}", pattern))
    return endless <= 4 and len(layer) <= (1000, 1000, 1000, 200, 80)[endless]


def read_scheme(config: Mapping[str, Any]) -> Scheme:
    """`quantization_config` or `quantization` (MLX), which stands at the top or in the config of a part."""
    for found in _sections(config):
        method = found.get("quant_method") or found.get("method")
        method = method.lower() if isinstance(method, str) else None
        return Scheme(_SAME.get(method or "", method), found)
    return Scheme(None, {})


def block_sizes(config: Mapping[str, Any]) -> frozenset[tuple[int, int]]:
    """The sizes (rows, columns) of blocks that share a scale.

    Raises CheckpointError where one is no pair of whole numbers.
    """
    blocks = set()
    for found in _sections(config):
        sizes = [found.get("weight_block_size")]
        groups = found.get("config_groups")
        for group in groups.values() if isinstance(groups, Mapping) else ():
            weights = group.get("weights") if isinstance(group, Mapping) else None
            sizes.append(weights.get("block_structure") if isinstance(weights, Mapping) else None)
        for size in sizes:
            if size is None:
                continue
            if not isinstance(size, list) or len(size) != 2 or not all(type(n) is int and 0 < n < 2**31 for n in size):
                raise CheckpointError(
                    f"quantization_config: a block's size must be two whole numbers, got {str(size)[:80]}"
                )
            blocks.add((size[0], size[1]))
    return frozenset(blocks)


def transforms_online(settings: Mapping[str, Any]) -> bool:
    """Whether compressed-tensors' config transforms what enters or leaves a layer at run time (TransformLocation)."""
    transforms = settings.get("transform_config")
    groups = transforms.get("config_groups") if isinstance(transforms, Mapping) else None
    for group in groups.values() if isinstance(groups, Mapping) else ():
        rows = group.get("apply") if isinstance(group, Mapping) else None
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, Mapping) and row.get("location") in ("input", "output"):
                return True
    return False


def _sections(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every section on quantisation, the outermost first."""
    for part in (config, *config.values()):
        if isinstance(part, Mapping):
            for key in ("quantization_config", "quantization"):
                if isinstance(part.get(key), Mapping):
                    yield part[key]
