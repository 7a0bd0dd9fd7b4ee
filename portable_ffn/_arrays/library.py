"""Which library an array belongs to, read off its type: nothing is imported, no value is looked at."""

from typing import Any

# (root of the defining module, class) of every array type whose library is known by name.
_ARRAY_TYPES = {
    ("numpy", "ndarray"): "numpy",
    ("numpy", "generic"): "numpy",
    ("torch", "Tensor"): "torch",
    ("jax", "Array"): "jax",
    ("jaxlib", "ArrayImpl"): "jax",
    ("jax", "Tracer"): "jax",
    ("dask", "Array"): "dask",
    ("cupy", "ndarray"): "cupy",
    ("mlx", "array"): "mlx",
    ("ndonnx", "Array"): "ndonnx",
    ("array_api_strict", "Array"): "array_api_strict",
}
# Subclasses of NumPy's array in which * or a mask means something else: taking them would give a wrong answer.
_REFUSED = {
    "matrix": "in np.matrix * multiplies matrices; pass np.asarray({0})",
    "MaskedArray": "the mask would be lost; pass {0}.filled(value)",
}
_seen: dict[type, str] = {}


def library_of(array: Any) -> str | None:
    """The name of the library that `array` belongs to; None where it is no array, or one that is refused."""
    kind = type(array)
    known = _seen.get(kind)
    if known is None:
        known = _recognise(kind)
        if known is not None:
            _seen[kind] = known
    return known


def _recognise(kind: type) -> str | None:
    """The library of the first base that is a known array type, else the root module of a type of the standard."""
    for base in kind.__mro__:
        root = base.__module__.partition(".")[0]
        if root == "numpy" and base.__name__ in _REFUSED:
            return None
        if (root, base.__name__) in _ARRAY_TYPES:
            return _ARRAY_TYPES[root, base.__name__]
    return kind.__module__.partition(".")[0] if hasattr(kind, "__array_namespace__") else None


def kind_of(array: Any) -> str:
    """What an argument is, for a message: never its repr, which may be long or hold a path."""
    if array is None:
        return "None"
    kind = type(array)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def not_an_array(argument: str, value: Any) -> TypeError:
    """The error for an argument that is no array, or one whose meaning would be lost."""
    for base in type(value).__mro__:
        if base.__module__.partition(".")[0] == "numpy" and base.__name__ in _REFUSED:
            return TypeError(
                f"{argument} must be a plain array, got {kind_of(value)}: {_REFUSED[base.__name__].format(argument)}",
            )
    return TypeError(
        f"{argument} must be an array (of NumPy, PyTorch, JAX or another library of the array API standard), "
        f"got {kind_of(value)}; make an array of it first",
    )
