"""The weights of one network, under the papers' names."""

from typing import Any, NamedTuple

from portable_ffn._arrays.typing import Array, DType
from portable_ffn._transfer.move import move


class Weights(NamedTuple):
    """The weights of a feed-forward network, of any one library.

    A NamedTuple, so a JAX pytree and `feed_forward(x, *weights)`. Vaswani et al. 2017, section 3.3, names W1, b1,
    W2 and b2; V and c are the linear branch of a gated network (Shazeer 2020). None where there is none.

    Attributes
    ----------
    W1 : array, shape (d_model, d_ff)
    b1 : array, shape (d_ff,), or None
    W2 : array, shape (d_ff, d_model)
    b2 : array, shape (d_model,), or None
    V : array, shape (d_model, d_ff), or None
    c : array, shape (d_ff,), or None
    """

    W1: Array
    b1: Array | None
    W2: Array
    b2: Array | None
    V: Array | None = None
    c: Array | None = None

    @property
    def d_model(self) -> int:
        """The width of x."""
        return int(self.W1.shape[0])

    @property
    def d_ff(self) -> int:
        """The width of the hidden layer."""
        return int(self.W1.shape[1])

    @property
    def gated(self) -> bool:
        """Whether there is a linear branch beside the activated one."""
        return self.V is not None

    @property
    def num_parameters(self) -> int:
        """How many numbers all weights and biases hold."""
        return sum(_size(array.shape) for array in self if array is not None)

    def to(self, *, like: Array | None = None, dtype: DType | None = None, device: Any = None) -> "Weights":
        """The same weights in another library, dtype or on another device.

        Parameters
        ----------
        like : array, optional
            Its library and device are taken, and its dtype if that is real floating.
        dtype : str or dtype, optional
            A name ("bfloat16") or the target library's own; wins over that of `like`.
        device : optional
            A device of the target library; wins over that of `like`.

        Returns
        -------
        Weights
            None stays None. Between two libraries the memory is shared where both allow it (by DLPack, or as NumPy
            sees it), so that a change of one shows in the other; memory that must not be written is copied rather
            than made writable. Cut from automatic differentiation there, differentiable within one library.

        Raises
        ------
        TypeError
            Where the target library, as configured, cannot hold the dtype.
        ValueError
            For a device that the target library does not have.
        """
        return Weights(*(None if array is None else move(array, like, dtype, device) for array in self))


Weights.__module__ = "portable_ffn"  # where it is public: pickles say so


def _size(shape: Any) -> int:
    """How many elements an array of that shape has."""
    size = 1
    for length in shape:
        size *= int(length)
    return size
