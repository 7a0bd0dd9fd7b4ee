"""What the config of a Keras model says of its Dense layers: which follow each other, and their activations.

The names that Keras makes up (dense_1) say nothing; the graph does. A Dense that ends in another, whatever drops units
between them, is a feed-forward network; where the second takes the product of two, those are its branches, and the
gate is the one with an activation. Source: keras/src/models/functional.py, sequential.py (get_config).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from portable_ffn.checkpoint._files.tensor import TensorInfo

_PASSING: Final = frozenset({"Dropout", "GaussianDropout", "AlphaDropout", "GaussianNoise", "ActivityRegularization"})
# Activations that Keras and the others mean alike by these words; its leaky_relu, say, is another's.
_ALIKE: Final = frozenset({"relu", "gelu", "silu", "swish", "tanh", "sigmoid", "elu", "mish", "softplus", "linear"})
_MADE_UP: Final = re.compile(r"dense(_\d+)?")


class Network(NamedTuple):
    """The names of the Dense layers of one network: the activated one, the linear one where it is gated, the last."""

    first: str
    linear: str | None
    last: str
    activation: str


class KerasConfig(NamedTuple):
    """The networks that a config tells of, and what it amounts to as a config of ours."""

    networks: tuple[Network, ...]
    settings: dict[str, Any]


def config_of(text: str | None) -> KerasConfig:
    """What a model's JSON says; nothing where there is none."""
    try:
        found = json.loads(text) if text else None
    except (ValueError, RecursionError):
        found = None
    layers = dict(_layers(found)) if isinstance(found, Mapping) else {}
    networks = tuple(network for name in layers if (network := _network(name, layers)) is not None)
    told = {network.activation for network in networks}
    settings: dict[str, Any] = {"model_type": "keras"} if layers else {}
    if len(told) == 1 and told <= _ALIKE:
        settings["hidden_act"] = told.pop()
    return KerasConfig(networks, settings)


class _Layer(NamedTuple):
    """One layer of the graph: its class, its activation, and the layers that it takes from."""

    kind: str
    activation: str
    before: tuple[str, ...]


def _layers(found: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, _Layer]]:
    """Every layer of a model and of the models in it."""
    inner = found.get("config")
    rows = inner.get("layers") if isinstance(inner, Mapping) else None
    last: tuple[str, ...] = ()
    for row in rows if isinstance(rows, list) else ():
        settings = row.get("config") if isinstance(row, Mapping) else None
        if not isinstance(settings, Mapping):
            continue
        name, kind = settings.get("name"), row.get("class_name")
        if not isinstance(name, str) or not isinstance(kind, str):
            continue
        given = settings.get("activation")
        if kind == "ReLU":
            bent = any(settings.get(key) for key in ("max_value", "negative_slope", "threshold"))
            given = {"relu": bent} if bent else "relu"
        activation = given if isinstance(given, str) else "" if given is None else "unknown"
        before = tuple(dict.fromkeys(_sources(row.get("inbound_nodes")))) if "inbound_nodes" in row else last
        yield name, _Layer(kind, activation, before)
        last = (name,)
        if depth < 10:
            yield from _layers(row, depth + 1)


def _sources(nodes: Any, depth: int = 0) -> Iterator[str]:
    """The layers whose outputs a node takes: keras_history of Keras 3, [name, 0, 0, {}] of Keras 2."""
    if depth > 12:
        return
    if isinstance(nodes, Mapping):
        history = nodes.get("keras_history")
        if isinstance(history, list) and history and isinstance(history[0], str):
            yield history[0]
        for value in nodes.values():
            yield from _sources(value, depth + 1)
    elif isinstance(nodes, list):
        if len(nodes) >= 3 and isinstance(nodes[0], str) and type(nodes[1]) is int and type(nodes[2]) is int:
            yield nodes[0]
        for value in nodes:
            yield from _sources(value, depth + 1)


def _network(name: str, layers: Mapping[str, _Layer]) -> Network | None:
    """The network that ends in a Dense layer, if one does."""
    layer = layers[name]
    if layer.kind != "Dense" or len(layer.before) != 1 or layer.activation not in ("", "linear"):
        return None
    source, activation = _back(layer.before[0], layers)
    if source is None:
        return None
    if layers[source].kind == "Dense":
        return Network(source, None, name, activation or layers[source].activation or "linear")
    if layers[source].kind != "Multiply" or len(layers[source].before) != 2 or activation:
        return None
    branches = [_back(one, layers) for one in layers[source].before]
    found = [(one, act or layers[one].activation) for one, act in branches if one and layers[one].kind == "Dense"]
    gates = [pair for pair in found if pair[1] not in ("", "linear")]
    if len(found) != 2 or len(gates) != 1:
        return None
    linear = next(one for one, act in found if act in ("", "linear"))
    return Network(gates[0][0], linear, name, gates[0][1])


def _back(name: str, layers: Mapping[str, _Layer]) -> tuple[str | None, str]:
    """The layer whose output comes here, and the activation that a layer of its own applies on the way."""
    activation = ""
    for _ in range(len(layers) + 1):
        layer = layers.get(name)
        if layer is None:
            return None, activation
        if layer.kind in ("Activation", "ReLU") and not activation:
            activation = layer.activation
        elif layer.kind not in _PASSING:
            return name, activation
        if len(layer.before) != 1:
            return None, activation
        name = layer.before[0]
    return None, activation


def renamed(tensors: Mapping[str, TensorInfo], config: KerasConfig) -> dict[str, TensorInfo]:
    """The tensors, those of networks under the words of one."""
    networks = config.networks or _by_order(tensors)
    parts: dict[str, str] = {}
    for number, network in enumerate(networks):
        words = {network.first: "gate_proj" if network.linear else "up_proj", network.last: "down_proj"}
        if network.linear:
            words[network.linear] = "up_proj"
        parts |= {layer: f"layers.{number}.mlp.{word}" for layer, word in words.items()}
    found = {}
    for name, info in tensors.items():
        path = name.split(".")
        new = parts.get(path[-2]) if len(path) > 1 and path[-1] in ("kernel", "bias") else None
        found[name if new is None else f"{new}.{path[-1]}"] = info
    return found


def _by_order(tensors: Mapping[str, TensorInfo]) -> Sequence[Network]:
    """Without a config: the order in which Keras numbers its layers, where one's outputs are the next one's inputs.

    Of two of one shape before a third nobody knows which is the gate, so that these are left alone.
    """
    found = []
    for layers in _numbered(tensors).values():
        order = [layers[number] for number in sorted(layers)]
        place = 0
        while place + 1 < len(order):
            (first, shape), (second, back) = order[place : place + 2]
            if shape == back[::-1] and (place == 0 or order[place - 1][1] != shape or order[place - 1][0] == ""):
                found.append(Network(first, None, second, ""))
                order[place + 1] = "", back
                place += 1
            place += 1
    return found


def _numbered(tensors: Mapping[str, TensorInfo]) -> dict[str, dict[int, tuple[str, tuple[int, ...]]]]:
    """The Dense layers under each path that Keras has numbered itself: their names and the shapes of their kernels."""
    found: dict[str, dict[int, tuple[str, tuple[int, ...]]]] = {}
    for name, info in tensors.items():
        path, disk = name.split("."), info.name.removesuffix("/vars/0").split("/")
        made_up = next((part for part in reversed(disk) if _MADE_UP.fullmatch(part)), None)
        if path[-1] == "kernel" and len(path) > 1 and len(info.shape) == 2 and made_up is not None:
            number = int(made_up.rpartition("_")[2]) if "_" in made_up else 0
            found.setdefault(".".join(path[:-2]), {})[number] = (path[-2], info.shape)
    return found
