"""Activations for which ONNX has operators of exactly their meaning. Each other one is its formula, node by node."""

from collections.abc import Callable, Mapping
from functools import partial

from portable_ffn.adapters._onnx_graph import Graph, Symbol


def _one(op: str, h: Symbol, graph: Graph, **attributes: str) -> Symbol:
    """One operator."""
    return graph.elementwise(op, h, **attributes)


def _scaled_silu(alpha: float, h: Symbol, graph: Graph) -> Symbol:
    """h s(alpha h), the pattern that runtimes look for."""
    return h * graph.elementwise("Sigmoid", h if alpha == 1 else h * alpha)


EVERY = ("float64", "float32")
# name -> the dtypes for which onnxruntime has the operator on a CPU, and how it is written.
OPERATORS: Mapping[str, tuple[tuple[str, ...], Callable[[Symbol, Graph], Symbol]]] = {
    "relu": (EVERY, partial(_one, "Relu")),
    "gelu": (("float32",), partial(_one, "Gelu", approximate="none")),
    "gelu_tanh": (("float32",), partial(_one, "Gelu", approximate="tanh")),
    "quick_gelu": (EVERY, partial(_scaled_silu, 1.702)),
    "silu": (EVERY, partial(_scaled_silu, 1.0)),
    "sigmoid": (EVERY, partial(_one, "Sigmoid")),
}
