"""The network: y = act(x W1 + b1) W2 + b2, or, gated, y = (act(x W1 + b1) * (x V + c)) W2 + b2."""

from portable_ffn._activations.named import Named
from portable_ffn._activations.resolve import Combining, Custom, resolve
from portable_ffn._arrays.arguments import explain_devices, one_library
from portable_ffn._arrays.promotion import Library, astype, result_dtype
from portable_ffn._arrays.shapes import NAMES, check_hidden_shapes
from portable_ffn._arrays.typing import Activation, Array, Namespace
from portable_ffn._arrays.validated import validated
from portable_ffn._native.table import NATIVE, WHOLE


def feed_forward(
    x: Array,
    W1: Array,
    b1: Array | None,
    W2: Array,
    b2: Array | None,
    V: Array | None = None,
    c: Array | None = None,
    *,
    activation: Activation = "relu",
) -> Array:
    """The position-wise feed-forward network of the Transformer, on arrays of any library.

    act(x W1 + b1) W2 + b2 where V is None, (act(x W1 + b1) * (x V + c)) W2 + b2 where it is given.

    Parameters
    ----------
    x : array, shape (..., d_model)
        The positions; any number of leading axes, none included.
    W1 : array, shape (d_model, d_ff)
    b1 : array, shape (d_ff,), or None
    W2 : array, shape (d_ff, d_model)
        Its width may differ from that of x (a projection).
    b2 : array, shape (d_model,), or None
    V : array, shape (d_model, d_ff), or None
        The linear branch of a gated network; W1 is the activated one.
    c : array, shape (d_ff,), or None
    activation : str, gate object or callable
        A name of `ACTIVATIONS`, a gate such as `ClippedGate`, or a callable on one array.

    Returns
    -------
    array, shape (..., d_model)
        Of the library and on the device of x. The dtype is the widest real floating one among x and the weights;
        bfloat16 with float16 gives float32; integers are cast to what the others promote to, and to the library's
        default float where there are no others.

    Raises
    ------
    TypeError
        Arguments that are no arrays, of two libraries, or of a dtype that is neither real floating, integer nor
        boolean.
    ValueError
        Shapes that don't fit, c or a gate without V, an unknown activation, two devices.

    References
    ----------
    Vaswani et al. 2017, Attention Is All You Need, section 3.3, equation 2.
    Shazeer 2020, GLU Variants Improve Transformer, equations 5 and 6.

    Examples
    --------
    >>> import numpy as np
    >>> from portable_ffn import feed_forward
    >>> W1, b1 = np.array([[1.0, -1.0]]), np.array([0.0, 0.5])
    >>> W2, b2 = np.array([[2.0], [3.0]]), np.array([1.0])
    >>> feed_forward(np.array([[2.0], [-2.0]]), W1, b1, W2, b2)
    array([[5. ],
           [8.5]])
    """
    whole = WHOLE.get(type(x))
    if whole is not None:
        y = whole(x, W1, b1, W2, b2, V, c, activation)
        if y is not None:
            return y
    act = resolve(activation, V is not None)
    arrays = (x, W1, b1, W2, b2, V, c)
    one, name, dtype = validated(arrays)
    native = NATIVE.get(one.name)
    try:
        y = None if native is None else native(arrays, act, name, dtype)
        if y is None:
            with one.quiet():
                y = generic(one, arrays, act, name, dtype)
        return y
    except ValueError as error:
        explained = explain_devices(NAMES, arrays)
        if explained is None:
            raise
        raise explained from error


def hidden(
    x: Array,
    W1: Array,
    b1: Array | None,
    V: Array | None = None,
    c: Array | None = None,
    *,
    activation: Activation = "relu",
) -> Array:
    """The activated hidden layer act(x W1 + b1), or act(x W1 + b1) * (x V + c).

    Parameters
    ----------
    x : array, shape (..., d_model)
    W1 : array, shape (d_model, d_ff)
    b1 : array, shape (d_ff,), or None
    V : array, shape (d_model, d_ff), or None
    c : array, shape (d_ff,), or None
    activation : str, gate object or callable
        All as in `feed_forward`.

    Returns
    -------
    array, shape (..., d_ff)
        How much each position takes of each of the d_ff memories; the dtype is that of `feed_forward`'s result.

    Raises
    ------
    TypeError, ValueError
        As `feed_forward` does.

    References
    ----------
    Geva et al. 2021, Transformer Feed-Forward Layers Are Key-Value Memories, equation 2: the memory coefficients.
    """
    act = resolve(activation, V is not None)
    names, arrays = ("x", "W1", "b1", "V", "c"), (x, W1, b1, V, c)
    if W1 is None:
        raise TypeError("W1 must be an array, got None; only biases and V may be None")
    one = one_library(names, arrays)
    check_hidden_shapes(*arrays)
    name, dtype = result_dtype(one, names, arrays)
    try:
        with one.quiet():
            computing = one.dtype(one.computing(name))
            x, W1, b1, V, c = _cast(arrays, computing, one.xp)
            return astype(_hidden(x, W1, b1, V, c, act, one.xp), dtype, one.xp)
    except ValueError as error:
        explained = explain_devices(names, arrays)
        if explained is None:
            raise
        raise explained from error


def generic(
    one: Library,
    arrays: tuple[Array | None, ...],
    act: Named | Custom | Combining,
    name: str,
    dtype: object,
) -> Array:
    """The network in functions of the standard, for arrays that were validated."""
    computing = dtype if one.computing(name) == name else one.dtype(one.computing(name))
    x, W1, b1, W2, b2, V, c = _cast(arrays, computing, one.xp)
    y = affine(_hidden(x, W1, b1, V, c, act, one.xp), W2, b2, one.xp)
    return astype(y, dtype, one.xp)


def _hidden(
    x: Array,
    W1: Array,
    b1: Array,
    V: Array,
    c: Array,
    act: Named | Custom | Combining,
    xp: Namespace,
) -> Array:
    """Both branches and what combines them."""
    g = affine(x, W1, b1, xp)
    u = None if V is None else affine(x, V, c, xp)
    return act.combine(g, u, xp)


def affine(x: Array, W: Array, b: Array | None, xp: Namespace) -> Array:
    """x W + b."""
    y = xp.matmul(x, W)
    return y if b is None else y + b


def _cast(arrays: tuple[Array | None, ...], dtype: object, xp: Namespace) -> tuple[Array | None, ...]:
    """The arrays in one dtype, None where None."""
    return tuple(None if array is None else astype(array, dtype, xp) for array in arrays)
