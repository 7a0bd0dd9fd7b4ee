"""All that must hold of the arguments of one call, in one place."""

from portable_ffn._arrays.arguments import one_library
from portable_ffn._arrays.promotion import Library, result_dtype
from portable_ffn._arrays.shapes import NAMES, check_shapes
from portable_ffn._arrays.typing import Array, DType


def validated(arrays: tuple[Array | None, ...]) -> tuple[Library, str, DType]:
    """The library and the dtype of the result, its name first, of arguments that fit; else raises, as promised."""
    x, W1, b1, W2, b2, V, c = arrays
    if W1 is None or W2 is None:
        raise TypeError(f"{'W1' if W1 is None else 'W2'} must be an array, got None; only biases and V may be None")
    one = one_library(NAMES, arrays)
    check_shapes(x, W1, b1, W2, b2, V, c)
    name, dtype = result_dtype(one, NAMES, arrays)
    return one, name, dtype
