"""What a value is, in the words of a message; and which kinds of array are refused."""

from typing import Any

from portable_ffn._arrays.errors import refusal

# Arrays in which * or a mask means something else: taking them would give a wrong answer.
REFUSED = {
    ("numpy", "matrix"): ("in np.matrix * multiplies matrices", "pass np.asarray({0})"),
    ("numpy", "MaskedArray"): ("the mask would be lost", "pass {0}.filled(value)"),
    ("marray", "MArray"): ("the mask would be lost", "pass {0}.data where nothing is masked"),
    # exp of its where was silently wrong; what it computes lazily can't be checked before it is asked for.
    ("blosc2", "NDArray"): ("its expressions of comparisons give wrong values", "pass {0}[:], an array of NumPy"),
    ("blosc2", "LazyExpr"): ("its expressions of comparisons give wrong values", "pass {0}[:], an array of NumPy"),
    ("torch", "MaskedTensor"): ("the mask would be lost", "pass {0}.to_tensor(value)"),
}


def kind_of(array: Any) -> str:
    """What an argument is, for a message: never its repr, which may be long or hold a path."""
    if array is None:
        return "None"
    kind = type(array)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def refused(kind: type) -> tuple[str, str] | None:
    """Why arrays of this type are refused, and what to do; None where they are not."""
    pairs = ((base.__module__.partition(".")[0], base.__name__) for base in kind.__mro__)
    return next((REFUSED[pair] for pair in pairs if pair in REFUSED), None)


def not_an_array(argument: str, value: Any) -> TypeError:
    """The error for an argument that is no array, or one whose meaning would be lost."""
    found = refused(type(value))
    if found is not None:
        reason, way = found
        statement = f"must be a plain array, got {kind_of(value)}: {reason}"
        return refusal(TypeError, argument, statement, way.format(argument))
    statement = (
        f"must be an array (of NumPy, PyTorch, JAX or another library of the array API standard), got {kind_of(value)}"
    )
    # A named tuple of arrays, such as Weights, was meant to stand for several arguments.
    several = isinstance(value, tuple) and hasattr(value, "_fields")
    advice = "unpack it with a star, as in feed_forward(x, *weights)" if several else "make an array of it first"
    return refusal(TypeError, argument, statement, advice)
