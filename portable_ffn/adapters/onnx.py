"""The network as an ONNX model, of basic operators that every runtime has."""

from collections.abc import Callable, Mapping
from functools import partial

from portable_ffn import __version__
from portable_ffn._activations.named import Named
from portable_ffn._activations.resolve import Hidden, resolve
from portable_ffn._arrays.arguments import Call, checked
from portable_ffn._arrays.dtype import REAL_FLOATING, dtype_name
from portable_ffn._arrays.errors import refusal
from portable_ffn._arrays.library import Library
from portable_ffn._arrays.shapes import WEIGHTS
from portable_ffn._arrays.typing import Activation, Array, DType, Namespace
from portable_ffn._network import generic
from portable_ffn._network.weights import Weights
from portable_ffn.adapters._module import missing

try:
    import onnx
    from onnx import helper
except ImportError as error:
    raise missing("ONNX", "onnx") from error

from portable_ffn.adapters._onnx_graph import FLOATING, Graph, Symbol

# The first with Gelu, and the first IR version that goes with it: onnxruntime reads them since 1.17.
OPSET = 20
IR_VERSION = 9


def _one(op: str, h: Symbol, graph: Graph, **attributes: str) -> Symbol:
    """One operator."""
    return graph.elementwise(op, h, **attributes)


def _scaled_silu(alpha: float, h: Symbol, graph: Graph) -> Symbol:
    """h s(alpha h), the pattern that runtimes look for."""
    return h * graph.elementwise("Sigmoid", h if alpha == 1 else h * alpha)


EVERY = ("float64", "float32")
# Activations for which ONNX has operators of exactly their meaning; each other one is its formula, node by node.
# name -> the dtypes for which onnxruntime has the operator on a CPU, and how it is written.
OPERATORS: Mapping[str, tuple[tuple[str, ...], Callable[[Symbol, Graph], Symbol]]] = {
    "relu": (EVERY, partial(_one, "Relu")),
    "gelu": (("float32",), partial(_one, "Gelu", approximate="none")),
    "gelu_tanh": (("float32",), partial(_one, "Gelu", approximate="tanh")),
    "quick_gelu": (EVERY, partial(_scaled_silu, 1.702)),
    "silu": (EVERY, partial(_scaled_silu, 1.0)),
    "sigmoid": (EVERY, partial(_one, "Sigmoid")),
}


class _OnnxLibrary(Library):
    """ONNX as a library; bfloat16 is computed in float32, since onnxruntime has no product of it on a CPU."""

    def dtype(self, name: str) -> DType:
        """Its dtypes are their names."""
        return name

    def computing(self, name: str) -> str:
        """The dtype of the products."""
        return "float32" if name == "bfloat16" else name


def to_onnx(
    weights: Weights,
    activation: Activation = "relu",
    *,
    dtype: DType | None = None,
    ndim: int = 2,
) -> onnx.ModelProto:
    """The network as an ONNX model from input "x" to output "y", its weights under their own names.

    Parameters
    ----------
    weights : Weights
        Of any library.
    activation : str, gate object or callable
        As in `feed_forward`. A gate or callable is called once, on arrays that have the operators of Python and, as
        `__array_namespace__()`, functions of the array API standard.
    dtype : str or dtype, optional
        That of x, y and the weights: float64, float32, float16 or bfloat16; by default the widest of the weights.
    ndim : int
        The number of axes of x, of shape (..., d_model), 1 for (d_model,). The leading ones are symbolic.

    Returns
    -------
    onnx.ModelProto
        Of opset 20, which onnxruntime reads since 1.17. Beyond 2 GiB save it by
        `onnx.save(model, path, save_as_external_data=True)`.

    Raises
    ------
    TypeError
        For weights that are no arrays, of two libraries, or of a dtype that can't be computed in; for another dtype.
    ValueError
        For shapes that don't fit, an unknown activation, an ndim below 1.

    Notes
    -----
    Half precision: the activation is computed in float32. float16 has its products in float16; bfloat16 in float32,
    rounded once, since onnxruntime has no product of it on a CPU.

    "gelu" and "gelu_tanh" are the operator Gelu with approximate "none" and "tanh", which runtimes know and fuse. Its
    negative tail is the runtime's: below -4 onnxruntime's is off by up to 3e-7, which may be more than the value. In
    float64, where onnxruntime has no such operator (and no Erf), it is this package's own formula, whose tail is right.

    Examples
    --------
    >>> from portable_ffn import init_weights
    >>> from portable_ffn.adapters.onnx import to_onnx
    >>> model = to_onnx(init_weights(4, 8, dtype="float32"), "gelu_tanh", ndim=3)
    >>> [node.op_type for node in model.graph.node]
    ['MatMul', 'Add', 'Gelu', 'MatMul', 'Add']
    """
    if isinstance(ndim, bool) or not isinstance(ndim, int):
        statement = f"must be an integer, the number of axes of x, got {type(ndim).__name__}"
        raise refusal(TypeError, "ndim", statement)
    if ndim < 1:
        raise refusal(ValueError, "ndim", f"must be 1 or more, since x has shape (..., d_model), got {ndim}")
    weights = Weights(*weights)
    act = _operators(resolve(activation, weights.gated))
    name = _checked(weights, dtype)
    leading = _leading(ndim - 1)
    graph = Graph()
    x = Symbol(graph, "x", name, (*(None for _ in leading), weights.d_model))
    held = _numpy(weights, name)
    arrays = (x, *(None if a is None else graph.initializer(n, a, name) for n, a in zip(WEIGHTS, held, strict=True)))
    generic.network(Call(_OnnxLibrary("onnx", graph), arrays, act, name, name))
    graph.nodes[-1].output[0] = "y"
    made = helper.make_graph(
        graph.nodes,
        "feed_forward",
        [helper.make_tensor_value_info("x", FLOATING[name], [*leading, weights.d_model])],
        [helper.make_tensor_value_info("y", FLOATING[name], [*leading, int(weights.W2.shape[1])])],
        graph.initializers,
    )
    return helper.make_model(
        made,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="portable_ffn",
        producer_version=__version__,
    )


def _checked(weights: Weights, dtype: DType | None) -> str:
    """The name of the model's dtype, for weights that fit together."""
    own = checked(WEIGHTS, weights).name
    name = own if dtype is None else dtype_name(dtype)
    if name not in REAL_FLOATING:
        statement = f"must be one of {', '.join(REAL_FLOATING)}, got {name}"
        raise refusal(TypeError, "dtype", statement, "name one of these")
    return name


def _numpy(weights: Weights, dtype: str) -> Weights:
    """The weights as NumPy arrays of that dtype."""
    import numpy as np

    return weights.to(like=np.empty(0), dtype=dtype)


def _leading(count: int) -> list[str]:
    """Names of the symbolic axes."""
    if count < 3:
        return ["batch", "tokens"][2 - count :]
    return [*(f"batch_{k}" for k in range(count - 1)), "tokens"]


def _operators(act: Hidden) -> Hidden:
    """An activation of the table as ONNX's operator, for the dtypes that runtimes have it for."""
    if not isinstance(act, Named) or act.name not in OPERATORS:
        return act
    dtypes, operator = OPERATORS[act.name]

    def value(h: Array, xp: Namespace) -> Array:
        return operator(h, xp) if h.dtype in dtypes else act.value(h, xp)

    return Named(act.name, value, act.slope)
