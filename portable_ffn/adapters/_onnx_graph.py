"""An ONNX graph as a namespace of the array API standard: what is done to its arrays becomes nodes.

The network's own formulas, written for any library, run on these arrays and leave a graph of basic operators. ONNX has
no expm1, no log1p and no comparison with a Python number; they are made of what it has.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import onnx
from onnx import helper

FLOATING = {
    "float64": onnx.TensorProto.DOUBLE,
    "float32": onnx.TensorProto.FLOAT,
    "float16": onnx.TensorProto.FLOAT16,
    "bfloat16": onnx.TensorProto.BFLOAT16,
}
# Functions of the standard that are one operator.
UNARY = {"abs": "Abs", "exp": "Exp", "log": "Log", "negative": "Neg", "sign": "Sign", "sqrt": "Sqrt", "tanh": "Tanh"}
BINARY = {"add": "Add", "divide": "Div", "maximum": "Max", "minimum": "Min", "multiply": "Mul", "subtract": "Sub"}
Shape = tuple[int | None, ...]


class Symbol:
    """An array of the graph: a name, a dtype by its name, and a shape with None for what the graph leaves open."""

    __array_ufunc__ = None  # NumPy's scalars and functions are not to take it for an object of theirs

    def __init__(self, graph: "Graph", name: str, dtype: str, shape: Shape) -> None:
        self.graph, self.name, self.dtype, self.shape = graph, name, dtype, shape

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    def __array_namespace__(self, api_version: str | None = None) -> "Graph":
        return self.graph

    def __bool__(self) -> bool:
        raise TypeError("an array of an ONNX graph has no values yet: an activation must not decide by them; use where")

    def __add__(self, other: Any) -> "Symbol":
        return self.graph.elementwise("Add", self, other)

    def __radd__(self, other: Any) -> "Symbol":
        return self.graph.elementwise("Add", other, self)

    def __sub__(self, other: Any) -> "Symbol":
        return self.graph.elementwise("Sub", self, other)

    def __rsub__(self, other: Any) -> "Symbol":
        return self.graph.elementwise("Sub", other, self)

    def __mul__(self, other: Any) -> "Symbol":
        return self.graph.elementwise("Mul", self, other)

    def __rmul__(self, other: Any) -> "Symbol":
        return self.graph.elementwise("Mul", other, self)

    def __truediv__(self, other: Any) -> "Symbol":
        return self.graph.elementwise("Div", self, other)

    def __rtruediv__(self, other: Any) -> "Symbol":
        return self.graph.elementwise("Div", other, self)

    def __pow__(self, other: Any) -> "Symbol":
        return self.graph.elementwise("Pow", self, other)

    def __neg__(self) -> "Symbol":
        return self.graph.elementwise("Neg", self)

    def __abs__(self) -> "Symbol":
        return self.graph.elementwise("Abs", self)

    def __le__(self, other: Any) -> "Symbol":
        return self.graph.elementwise("LessOrEqual", self, other, dtype="bool")

    def __lt__(self, other: Any) -> "Symbol":
        return self.graph.elementwise("Less", self, other, dtype="bool")

    def __ge__(self, other: Any) -> "Symbol":
        return self.graph.elementwise("GreaterOrEqual", self, other, dtype="bool")

    def __gt__(self, other: Any) -> "Symbol":
        return self.graph.elementwise("Greater", self, other, dtype="bool")


class Graph:
    """The nodes and constants of a graph in the order in which they came, and the functions that add to them."""

    __name__ = "an ONNX graph"
    float64, float32, float16, bfloat16 = FLOATING

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._constants: dict[tuple[float, str], Symbol] = {}

    def __getattr__(self, name: str) -> Any:
        """The functions that are one operator."""
        op = UNARY.get(name) or BINARY.get(name)
        if op is None:
            known = ", ".join(sorted((*UNARY, *BINARY, "expm1", "log1p", "matmul", "mean", "where")))
            raise AttributeError(f"a function for an ONNX graph must be one of {known}, got {name}")
        return partial(self.elementwise, op)

    def initializer(self, name: str, array: Any, dtype: str) -> Symbol:
        """A NumPy array as a part of the graph."""
        data = array.tobytes()
        self.initializers.append(helper.make_tensor(name, FLOATING[dtype], array.shape, data, raw=True))
        return Symbol(self, name, dtype, array.shape)

    def operator(self, op: str, *inputs: Symbol, dtype: str, shape: Shape, **attributes: Any) -> Symbol:
        """A node with one output."""
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [s.name for s in inputs], [name], name=name, **attributes))
        return Symbol(self, name, dtype, shape)

    def elementwise(self, op: str, *inputs: Any, dtype: str | None = None, **attributes: Any) -> Symbol:
        """A node on arrays of one dtype and Python numbers, which take that dtype; the shape is the longest."""
        arrays = [s for s in inputs if isinstance(s, Symbol)]
        own = next(s.dtype for s in arrays if s.dtype != "bool")
        shape = max((s.shape for s in arrays), key=len)
        operands = [s if isinstance(s, Symbol) else self._constant(float(s), own) for s in inputs]
        return self.operator(op, *operands, dtype=dtype or own, shape=shape, **attributes)

    def _constant(self, value: float, dtype: str) -> Symbol:
        """A number, which many nodes may share."""
        known = self._constants.get((value, dtype))
        if known is None:
            name = f"constant_{len(self._constants)}"
            self.initializers.append(helper.make_tensor(name, FLOATING[dtype], [], [value]))
            known = self._constants[value, dtype] = Symbol(self, name, dtype, ())
        return known

    def astype(self, x: Symbol, dtype: str, *, copy: bool = True) -> Symbol:
        """x in another dtype."""
        return self.operator("Cast", x, dtype=dtype, shape=x.shape, to=FLOATING[dtype])

    def asarray(self, values: Sequence[float], *, dtype: str) -> Symbol:
        """Numbers as a part of the graph."""
        name = f"values_{len(self.initializers)}"
        self.initializers.append(helper.make_tensor(name, FLOATING[dtype], [len(values)], values))
        return Symbol(self, name, dtype, (len(values),))

    def matmul(self, a: Symbol, b: Symbol) -> Symbol:
        """The product of the last axis with a matrix."""
        return self.operator("MatMul", a, b, dtype=a.dtype, shape=(*a.shape[:-1], b.shape[-1]))

    def mean(self, x: Symbol, *, axis: int, keepdims: bool = False) -> Symbol:
        """The mean over one axis."""
        name = f"axes_{len(self.initializers)}"
        self.initializers.append(helper.make_tensor(name, onnx.TensorProto.INT64, [1], [axis]))
        axes = Symbol(self, name, "int64", (1,))
        kept = tuple(1 if k == axis % x.ndim else n for k, n in enumerate(x.shape) if keepdims or k != axis % x.ndim)
        return self.operator("ReduceMean", x, axes, dtype=x.dtype, shape=kept, keepdims=int(keepdims))

    def where(self, condition: Symbol, x: Any, y: Any) -> Symbol:
        """x where the condition holds, y elsewhere."""
        return self.elementwise("Where", condition, x, y)

    def ones_like(self, x: Symbol) -> Symbol:
        """Ones of that shape."""
        return self.zeros_like(x) + 1.0

    def zeros_like(self, x: Symbol) -> Symbol:
        """Zeros of that shape."""
        zero = self._constant(0.0, x.dtype)  # not x * 0, which is NaN where x is not finite
        return self.operator("Where", x <= 0, zero, zero, dtype=x.dtype, shape=x.shape)

    def expm1(self, x: Symbol) -> Symbol:
        """exp(x) - 1; for small x as 2 t / (1 - t), t = tanh(x / 2), which loses nothing."""
        t = self.tanh(x * 0.5)
        return self.where(x > 0.5, self.exp(x) - 1.0, 2.0 * t / (1.0 - t))

    def log1p(self, x: Symbol) -> Symbol:
        """log(1 + x)."""
        # What 1 + x rounds away is put right by a factor (Goldberg 1991, theorem 4).
        w = 1.0 + x
        kept = w - 1.0
        small = self.where(self.elementwise("Equal", kept, 0.0, dtype="bool"), x, self.log(w) * (x / kept))
        return self.where(x > 1, self.log(w), small)
