"""The network: y = act(x W1 + b1) W2 + b2, or, gated, y = (act(x W1 + b1) * (x V + c)) W2 + b2."""

from portable_ffn._activations.resolve import resolve
from portable_ffn._arrays.arguments import Call, checked
from portable_ffn._arrays.deferred import deferred, stands_for_an_array
from portable_ffn._arrays.explain import explaining
from portable_ffn._arrays.shapes import HIDDEN, NAMES
from portable_ffn._arrays.typing import Array, ArrayT, KnownActivation
from portable_ffn._native import table
from portable_ffn._network import generic


def feed_forward(
    x: ArrayT,
    W1: Array,
    b1: Array | None,
    W2: Array,
    b2: Array | None,
    V: Array | None = None,
    c: Array | None = None,
    *,
    activation: KnownActivation = "relu",
) -> ArrayT:
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
    small = table.small(type(x))
    if small is not None:
        y = small(x, W1, b1, W2, b2, V, c, activation)
        if y is not None:
            return y
    if stands_for_an_array(x):
        return deferred(feed_forward, x, W1, b1, W2, b2, V, c, activation=activation)
    act = resolve(activation, V is not None)
    return network(checked(NAMES, (x, W1, b1, W2, b2, V, c), act))


def network(call: Call) -> Array:
    """The network of arguments that were checked: by the library's own row, else in functions of the standard."""
    return explaining(NAMES, call.arrays, _network, call)


def _network(call: Call) -> Array:
    """The same, whose errors are the library's own."""
    y = table.run(call)
    return generic.network(call) if y is None else y


def hidden(
    x: ArrayT,
    W1: Array,
    b1: Array | None,
    V: Array | None = None,
    c: Array | None = None,
    *,
    activation: KnownActivation = "relu",
) -> ArrayT:
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
    if stands_for_an_array(x):
        return deferred(hidden, x, W1, b1, V, c, activation=activation)
    call = checked(HIDDEN, (x, W1, b1, V, c), resolve(activation, V is not None))
    return explaining(HIDDEN, call.arrays, generic.hidden, call)
