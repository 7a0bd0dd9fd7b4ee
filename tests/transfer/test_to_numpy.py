"""Every array that NumPy itself, DLPack or a dense copy reaches comes to NumPy."""

import numpy as np
import pytest

from portable_ffn import Weights
from portable_ffn._transfer.move import to_numpy

VALUES = np.arange(6.0).reshape(2, 3)


class Unread:
    """An array of the standard that NumPy does not read by itself."""

    __module__ = "somelibrary.arrays"
    dtype, shape, ndim = np.dtype("float64"), (2, 3), 2

    def __array_namespace__(self, api_version=None):
        return np

    def __array__(self, *rest, **named):
        raise TypeError("implicit conversion is not allowed")


class ByDLPack(Unread):
    """One that speaks DLPack, as dpnp's does."""

    def __dlpack__(self, **named):
        return VALUES.__dlpack__(**{name: value for name, value in named.items() if name != "dl_device"})

    def __dlpack_device__(self):
        return VALUES.__dlpack_device__()


class Sparse(Unread):
    """One that has a dense form, as sparse's has."""

    def todense(self):
        return VALUES


@pytest.mark.parametrize("kind", [ByDLPack, Sparse])
def test_what_numpy_does_not_read_by_itself(kind):
    array = kind()
    np.testing.assert_array_equal(to_numpy(array), VALUES)
    moved = Weights(array, None, array, None).to(like=np.zeros(1))
    assert type(moved.W1) is np.ndarray


def test_what_nothing_reaches_is_told():
    with pytest.raises(TypeError, match=r"array must be one that NumPy can read, got somelibrary.Unread"):
        to_numpy(Unread())


@pytest.mark.filterwarnings("ignore:Sparse CSR")  # PyTorch says that it is in beta
def test_sparse_tensors_of_pytorch():
    torch = pytest.importorskip("torch")
    for layout in (torch.sparse_coo, torch.sparse_csr):
        np.testing.assert_array_equal(to_numpy(torch.from_numpy(VALUES).to_sparse(layout=layout)), VALUES)
