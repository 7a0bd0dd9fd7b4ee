"""The mathematics: the network and its gradient in functions of the array API standard. Read this first.

    g = x W1 + b1                   the activated branch, (..., d_ff)
    u = x V + c                     the linear branch of a gated network
    m = act(g), or act(g) u         the hidden layer; a gate object makes it of both branches in its own way
    y = m W2 + b2                   (..., d_model)

All arguments were checked (`_arrays/arguments.py`); half precision goes through float32 on the libraries whose row
says so. What a library does faster in its own words stands in `_native`, and gives the same values.
"""

from portable_ffn._activations.resolve import Hidden
from portable_ffn._arrays.arguments import Call
from portable_ffn._arrays.dtype import LOW_PRECISION, dtype_name
from portable_ffn._arrays.promotion import astype, cast
from portable_ffn._arrays.typing import Array, DType, Namespace


def network(call: Call) -> Array:
    """y."""
    one, arrays, act, _, dtype = call
    xp = one.xp
    with one.inside():
        x, W1, b1, W2, b2, V, c = cast(arrays, _computing(call), xp)
        y = affine(_hidden(x, W1, b1, V, c, act, xp), W2, b2, xp)
        return astype(y, dtype, xp)


def hidden(call: Call) -> Array:
    """m, from x, W1, b1, V and c."""
    one, arrays, act, _, dtype = call
    with one.inside():
        x, W1, b1, V, c = cast(arrays, _computing(call), one.xp)
        return astype(_hidden(x, W1, b1, V, c, act, one.xp), dtype, one.xp)


def _hidden(
    x: Array, W1: Array, b1: Array | None, V: Array | None, c: Array | None, act: Hidden, xp: Namespace
) -> Array:
    """Both branches and what combines them."""
    g = affine(x, W1, b1, xp)
    u = None if V is None else affine(x, V, c, xp)
    return act.combine(g, u, xp)


def affine(x: Array, W: Array, b: Array | None, xp: Namespace) -> Array:
    """x W + b."""
    y = xp.matmul(x, W)
    return y if b is None else xp.add(y, b)


def gradients(call: Call, dy: Array) -> tuple[Array | None, ...]:
    """The gradients of sum(y * dy) by all seven arguments, in the dtype of the products.

    Backwards through the four lines above, all tokens at once: each weight's gradient is a sum over all leading axes,
    which are contracted as they are and never merged, so that a chunked array stays as chunked.
    """
    one, arrays, act, _, _ = call
    xp, computing = one.xp, _computing(call)
    x, W1, b1, W2, b2, V, c = cast(arrays, computing, xp)
    dy = astype(dy, computing, xp)
    g = affine(x, W1, b1, xp)
    u = None if V is None else affine(x, V, c, xp)
    dm = xp.matmul(dy, xp.matrix_transpose(W2))
    m, dg, du = act.gradients(g, u, dm, xp)
    dx = xp.matmul(dg, xp.matrix_transpose(W1))
    if V is not None:
        dx = dx + xp.matmul(du, xp.matrix_transpose(V))
    return (
        dx,
        over_tokens(x, dg, xp),
        None if b1 is None else sum_of_tokens(dg, xp),
        over_tokens(m, dy, xp),
        None if b2 is None else sum_of_tokens(dy, xp),
        None if V is None else over_tokens(x, du, xp),
        None if c is None else sum_of_tokens(du, xp),
    )


def over_tokens(a: Array, b: Array, xp: Namespace) -> Array:
    """a^T b, summed over all leading axes."""
    leading = list(range(len(a.shape) - 1))
    return xp.tensordot(a, b, axes=(leading, leading))


def sum_of_tokens(d: Array, xp: Namespace) -> Array:
    """d summed over all leading axes, in float32 at least."""
    leading = tuple(range(len(d.shape) - 1))
    wide = astype(d, xp.float32, xp) if dtype_name(d.dtype) in LOW_PRECISION else d
    return xp.sum(wide, axis=leading) if leading else d


def _computing(call: Call) -> DType:
    """The dtype that the products are computed in."""
    computing = call.library.computing(call.name)
    return call.dtype if computing == call.name else call.library.dtype(computing)
