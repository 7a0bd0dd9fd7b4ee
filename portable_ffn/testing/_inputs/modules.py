"""A PyTorch module, which holds weights of its own, as a network of given ones: they are put into a copy of it.

The copy is called in evaluation mode and without gradients; nothing of the module's is changed.
"""

import copy
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from portable_ffn._arrays.typing import Array
from portable_ffn.testing._inputs.signature import ARRAYS

_BIAS = {"W1": "b1", "W2": "b2", "V": "c"}
# Names under which models keep a layer, where three layers must be told apart.
_WORDS = {
    "W1": ("gate_proj", "w1", "gate", "wi_0", "fc1_g"),
    "V": ("up_proj", "w3", "up", "wi_1", "fc1_x"),
    "W2": ("down_proj", "w2", "down", "wo", "c_proj", "fc2", "out_proj"),
}


def is_module(fn: Any) -> bool:
    """Whether `fn` is a module of PyTorch that is called on x alone."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(fn, torch.nn.Module):
        return False
    parameters = inspect.signature(fn.forward).parameters.values()
    return len([p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]) == 1


def as_network(module: Any, gated: bool, weights: Mapping[str, str] | None) -> Callable[..., Array]:
    """The module as a function of x and the weights that its linear layers have.

    Raises TypeError where it can't be told which layer is which; `weights` names them then, W1 and V alike where one
    layer makes both branches.
    """
    layers = _linear_layers(module)
    paths = _named(layers, gated, weights) if weights is not None else _told(module, layers, gated)
    fused = paths.get("V") == paths["W1"]
    names = {"x", *paths, *(_BIAS[role] for role, path in paths.items() if layers[path].bias is not None)}
    order = tuple(name for name in ARRAYS if name in names)

    def network(*arrays: Array) -> Array:
        import torch

        given = dict(zip(order, arrays, strict=True))
        x = given["x"]
        called = copy.deepcopy(module).to(dtype=x.dtype, device=x.device).eval()
        for role, path in paths.items():
            W, b = given[role], given.get(_BIAS[role])
            if fused and role == "V":
                continue
            if fused and role == "W1":
                W = torch.cat([W, given["V"]], dim=1)
                b = None if b is None else torch.cat([b, given["c"]])
            _put(called.get_submodule(path), W, b)
        with torch.no_grad():
            y: Array = called(x)
        return y

    network.__name__ = type(module).__name__
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in order]
    network.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return network


def _linear_layers(module: Any) -> dict[str, Any]:
    """The linear layers of a module by their paths; Conv1D is GPT-2's, which holds (in, out)."""
    import torch

    return {
        path: layer
        for path, layer in module.named_modules()
        if isinstance(layer, torch.nn.Linear) or type(layer).__name__ == "Conv1D"
    }


def _put(layer: Any, W: Array, b: Array | None) -> None:
    """Weights of (in, out) into a layer, as it holds them."""
    import torch

    turned = isinstance(layer, torch.nn.Linear)
    layer.weight = torch.nn.Parameter(W.T if turned else W, requires_grad=False)
    layer.bias = None if b is None else torch.nn.Parameter(b, requires_grad=False)
    if turned:
        layer.in_features, layer.out_features = W.shape
    else:
        layer.nf = W.shape[1]
        layer.bias = layer.bias if b is not None else torch.nn.Parameter(W.new_zeros(W.shape[1]), requires_grad=False)


def _told(module: Any, layers: dict[str, Any], gated: bool) -> dict[str, str]:
    """Which layer is which, by their number, order, widths and names."""
    paths = list(layers)
    if len(paths) == 2 and not gated:
        return {"W1": paths[0], "W2": paths[1]}
    if len(paths) == 2 and _width(layers[paths[0]], out=True) == 2 * _width(layers[paths[1]], out=False):
        return {"W1": paths[0], "V": paths[0], "W2": paths[1]}
    if len(paths) == 3 and gated:
        last = {path.rpartition(".")[2].lower(): path for path in paths}
        found = {role: [last[word] for word in words if word in last] for role, words in _WORDS.items()}
        if all(len(one) == 1 for one in found.values()):
            return {role: one[0] for role, one in found.items()}
    raise _unknown(type(module).__name__, layers, gated)


def _named(layers: dict[str, Any], gated: bool, weights: Mapping[str, str]) -> dict[str, str]:
    """Which layer is which, as the caller says."""
    wanted = {"W1", "W2", *(("V",) if gated else ())}
    if set(weights) != wanted or not set(weights.values()) <= set(layers):
        raise TypeError(
            f"weights must name the layers of {', '.join(sorted(wanted))} among {', '.join(layers) or 'none'}, "
            f"got {dict(weights)}"
        )
    return dict(weights)


def _unknown(name: str, layers: dict[str, Any], gated: bool) -> TypeError:
    """The error where layers can't be told apart."""
    example = "{'W1': ..., 'V': ..., 'W2': ...}" if gated else "{'W1': ..., 'W2': ...}"
    return TypeError(
        f"the linear layers of {name} must be told apart, and {len(layers)} were found "
        f"({', '.join(layers) or 'none'}); name them by weights={example}"
    )


def _width(layer: Any, *, out: bool) -> int:
    """The number of a layer's outputs or inputs."""
    outputs, inputs = layer.weight.shape if hasattr(layer, "in_features") else layer.weight.shape[::-1]
    return int(outputs if out else inputs)
