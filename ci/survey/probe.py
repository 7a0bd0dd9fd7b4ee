"""A probe under every key that may name an activation, and where the probes end up in the networks of a model.

A model is built on the meta device, where it takes no memory. The on-disk names of its tensors are those that
`save_pretrained` writes, and the networks among them are those that this library's own reader would find.
"""

import copy
import inspect
import re
from collections.abc import Iterator
from typing import Any

import torch
import transformers.core_model_loading as loading
from torch import nn
from transformers import activations
from transformers.configuration_utils import PreTrainedConfig
from transformers.conversion_mapping import get_model_conversion_mapping

from portable_ffn.checkpoint._layers.candidates import candidates

KEY = re.compile(r"act$|act_fn$|_act_|activation|afn|feed_forward_proj|nemo_act|act_func")
# Of poolers, attention and routers.
NO_KEYS = frozenset(
    {"attn_implementation", "summary_activation", "scoring_func", "pooler_act", "output_gate_activation"}
)
_LAYERS = re.compile(r"num_hidden_layers|num_layers|^n_layers?$|^depth$|_layers$|^n_layer")
_EXPERTS = frozenset({"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"})
_FIXED: dict[type, str] = {
    nn.ReLU: "relu",
    nn.SiLU: "silu",
    nn.Tanh: "tanh",
    nn.Sigmoid: "sigmoid",
    nn.ReLU6: "relu6",
    nn.LeakyReLU: "leaky_relu",
    nn.Hardswish: "hard_swish",
    nn.PReLU: "prelu",
    nn.Mish: "mish",
    nn.Softplus: "softplus",
}
_FUNCTIONS = frozenset({"gelu", "relu", "silu", "tanh", "sigmoid", "quick_gelu"})
_CALL = re.compile(
    r"(?:F|nn\.functional|torch)\.(gelu|relu|silu|leaky_relu|elu|glu)\(([^)]*)\)|\b(swiglu|quick_gelu|gelu)\("
)
_NAMES = {key: key for key in activations.ACT2CLS}


class Probe(nn.Module):
    """Stands where an activation would, and remembers which key put it there."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: Any) -> Any:
        """Nothing is computed."""
        return x


def _get(self: Any, key: str) -> Any:
    """A probe by its name, anything else as ever."""
    return Probe(key) if isinstance(key, str) and key.startswith("probe:") else _usual(self, key)


def _has(self: Any, key: str) -> bool:
    """Whether it is a probe's name, or an activation's."""
    return str(key).startswith("probe:") or dict.__contains__(self, key)


_usual = activations.ClassInstantier.__getitem__
activations.ClassInstantier.__getitem__ = _get
activations.ClassInstantier.__contains__ = _has


def objects(
    config: Any, path: tuple[str, ...] = (), seen: set[int] | None = None
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A config and those nested in it, each once, with its path."""
    seen = set() if seen is None else seen
    if id(config) in seen:
        return
    seen.add(id(config))
    yield path, config
    for key, value in list(vars(config).items()):
        if isinstance(value, PreTrainedConfig):
            yield from objects(value, (*path, key), seen)


def names_activation(key: str, value: Any) -> bool:
    """Whether a config's value may be an activation of a network."""
    return (
        isinstance(value, str)
        and not key.startswith("_")
        and key not in NO_KEYS
        and (value.lower() in _NAMES or KEY.search(key) is not None)
    )


def put_probes(config: Any) -> None:
    """A probe under every key, named by the nested config's path and the key; each config keeps its own path."""
    for path, inner in objects(config):
        inner.__dict__["_survey_path"] = "/".join(path)
        for key, value in list(vars(inner).items()):
            if names_activation(key, value):
                name = f"probe:{'/'.join(path)}|{key}"
                inner.__dict__[key] = name
                activations.ACT2CLS[name] = type("Named", (Probe,), {"__init__": _named(name)})


def _named(name: str) -> Any:
    """The constructor of a probe that takes what the activation's would."""
    return lambda self, *args, **kwargs: Probe.__init__(self, name)


def shrink(config: Any, layers: int = 4) -> None:
    """Fewer layers and experts: what differs between layers shows in the first few."""
    for _, inner in objects(config):
        for key, value in list(vars(inner).items()):
            whole = isinstance(value, int) and not isinstance(value, bool)
            if whole and _LAYERS.search(key) and value > layers:
                inner.__dict__[key] = layers
            elif whole and key in _EXPERTS and value > 64:
                inner.__dict__[key] = 16


def build(model_class: Any, config: Any) -> Any:
    """A model on the meta device."""
    with torch.device("meta"):
        return model_class._from_config(config)


def on_disk(model: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """The names that the model is saved under: of each, the first parameter in memory it is of, and its tensor."""
    state = dict(model.state_dict())
    conversions = get_model_conversion_mapping(model, add_legacy=False) or []
    conversions = [one for one in conversions if not isinstance(one, loading.PrefixChange)]
    if not conversions:
        return {name: name for name in state}, state
    backwards = [one.reverse_transform() for one in conversions[::-1]]
    renamings = [one for one in backwards if isinstance(one, loading.WeightRenaming)]
    converters = [one for one in backwards if isinstance(one, loading.WeightConverter)]
    by_source = {pattern: one for one in converters for pattern in one.source_patterns}
    steps: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name, tensor in sorted(state.items(), key=lambda item: loading.dot_natural_key(item[0])):
        target, source = loading.apply_converters(name, converters)
        if source is None:
            target, source = loading.apply_renamings(name, renamings), name
            step = steps.setdefault(target, loading.WeightRenaming(name, target))
        else:
            step = steps.setdefault(target, copy.deepcopy(by_source[source]))
        step.add_tensor(target, name, source, tensor)
        origins.setdefault(target, name)
    names: dict[str, str] = {}
    tensors: dict[str, Any] = {}
    for first, step in steps.items():
        for target, value in step.convert(first, model=model, config=model.config).items():
            if isinstance(step, loading.WeightConverter):
                target = loading.apply_renamings(target, renamings)
            names[target] = origins[first]
            tensors[target] = value[0] if isinstance(value, list) else value
    return names, tensors


def _activation(value: Any) -> str | None:
    """The probe that a module's attribute is, or "=" and the activation that the code put there."""
    if isinstance(value, Probe):
        return value.name
    if isinstance(value, nn.GELU):
        return "=gelu_tanh" if value.approximate == "tanh" else "=gelu"
    if type(value) in _FIXED:
        return "=" + _FIXED[type(value)]
    for name, made in activations.ACT2CLS.items():
        cls = made[0] if isinstance(made, tuple) else made
        if isinstance(cls, type) and type(value) is cls and not issubclass(cls, Probe):
            return "=" + name
    if isinstance(value, nn.Module):
        told = re.search("gelu|relu|silu|swish|glu$", type(value).__name__.lower())
        return f"=?{type(value).__name__}" if told and not list(value.children()) else None
    if callable(value) and getattr(value, "__name__", "") in _FUNCTIONS:
        return "=" + value.__name__
    return value if isinstance(value, str) and value.startswith("probe:") else None


def _held(module: Any) -> dict[str, str]:
    """The activations that a module and those below it hold, by the name of the attribute."""
    found: dict[str, str] = {}
    for name, inner in module.named_modules():
        if isinstance(inner, nn.Linear | Probe) and name == "":
            continue
        said = _activation(inner)
        if said is not None and name:
            found[name] = said
            continue
        for key, value in vars(inner).items():
            said = None if key.startswith("_") or key in ("training", "config") else _activation(value)
            if said is not None:
                found[f"{name}.{key}" if name else key] = said
    return found


def source_of_network(module: Any) -> str | None:
    """What a network's activation comes from: a probe, or "=" and a name; None where it can't be told."""
    held = {key: said for key, said in _held(module).items() if not key.startswith("attention")}
    direct = {key: said for key, said in held.items() if "." not in key}
    if len(set(direct.values())) > 1 and "act_fn" in direct and not any("GLU" in said for said in direct.values()):
        direct = {"act_fn": direct["act_fn"]}
    for found in (set(held.values()), set(direct.values())):
        if len(found) == 1:
            (said,) = found
            return None if said.startswith("=?") else said
    return None if held else _in_the_code(module)


def _in_the_code(module: Any) -> str | None:
    """The one activation function that the code of a module calls."""
    try:
        text = inspect.getsource(type(module))
    except (OSError, TypeError):
        return None
    found = set()
    for function, arguments, bare in _CALL.findall(text):
        name = function or bare
        found.add({"swiglu": "silu"}.get(name, "gelu_tanh" if name == "gelu" and "tanh" in arguments else name))
    return f"={found.pop()}" if len(found) == 1 else None


def networks(model: Any) -> Iterator[tuple[Any, Any, str | None, str]]:
    """Each network on disk: the candidate, its module, what its activation comes from, and whose config it has."""
    names, tensors = on_disk(model)
    for candidate in candidates(tensors):
        paths = [names[key].split(".") for key in (candidate.W1, candidate.W2)]
        common = 0
        while common < min(map(len, paths)) and paths[0][common] == paths[1][common]:
            common += 1
        last = 2 if paths[0][-1] in ("weight", "bias") else 1
        path = paths[0][: min(common, len(paths[0]) - last)]
        try:
            module = model.get_submodule(".".join(path))
            while isinstance(module, nn.ModuleList | nn.ModuleDict) and path:
                path = path[:-1]
                module = model.get_submodule(".".join(path))
        except AttributeError:
            continue
        if candidate.pattern.W1 in ("0", "layers.0") and (not path or path == ["model"]):
            continue
        yield candidate, module, source_of_network(module), _owner(model, path)


def _owner(model: Any, path: list[str]) -> str:
    """The path of the nearest config above a module."""
    for end in range(len(path), -1, -1):
        config = getattr(model.get_submodule(".".join(path[:end])), "config", None)
        if isinstance(config, PreTrainedConfig):
            return str(vars(config).get("_survey_path", ""))
    return ""
