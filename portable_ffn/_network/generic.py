"""The gradient in functions of the standard, all tokens at once.

Backwards through y = m W2 + b2, m = act(g) or act(g) u, g = x W1 + b1, u = x V + c: each weight's gradient is a sum
over all leading axes, which are contracted as they are and never merged, so that a chunked array stays as chunked.
"""

from typing import Any

from portable_ffn._activations.slopes import Resolved, branches
from portable_ffn._arrays.dtype import LOW_PRECISION, dtype_name
from portable_ffn._arrays.promotion import astype
from portable_ffn._arrays.typing import Array, DType, Namespace
from portable_ffn._network.feed_forward import affine


def whole(
    xp: Namespace,
    arrays: tuple[Array, ...],
    act: Resolved,
    computing: DType,
    dy: Array,
) -> tuple[Array | None, ...]:
    """The gradients of all seven arguments in functions of the standard, in the dtype of the products."""
    wide: list[Any] = [None if array is None else astype(array, computing, xp) for array in arrays]
    x, W1, b1, W2, b2, V, c = wide
    dy = astype(dy, computing, xp)
    u = None if V is None else affine(x, V, c, xp)
    m, dg, du = branches(act, affine(x, W1, b1, xp), u, xp.matmul(dy, W2.T), xp)
    dx = xp.matmul(dg, W1.T)
    if V is not None:
        dx = dx + xp.matmul(du, V.T)
    return (
        dx,
        _over_tokens(x, dg, xp),
        None if b1 is None else _sum_of_tokens(dg, xp),
        _over_tokens(m, dy, xp),
        None if b2 is None else _sum_of_tokens(dy, xp),
        None if V is None else _over_tokens(x, du, xp),
        None if c is None else _sum_of_tokens(du, xp),
    )


def _over_tokens(a: Array, b: Array, xp: Namespace) -> Array:
    """a^T b, summed over all leading axes."""
    leading = list(range(a.ndim - 1))
    return xp.tensordot(a, b, axes=(leading, leading))


def _sum_of_tokens(d: Array, xp: Namespace) -> Array:
    """D summed over all leading axes, in float32 at least."""
    leading = tuple(range(d.ndim - 1))
    wide = astype(d, xp.float32, xp) if dtype_name(d.dtype) in LOW_PRECISION else d
    return xp.sum(wide, axis=leading) if leading else d
