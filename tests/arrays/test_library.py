"""One library and one device for all the arrays of a call."""

import numpy as np
import pytest

from portable_ffn import (
    Weights,
    feed_forward,
)
from tests.contract import W, X, every_backend, put


@pytest.mark.parametrize("argument", ["x", *Weights._fields[:4]])
@every_backend
def test_arrays_of_two_libraries(backend, argument):
    if backend.library == "numpy":
        pytest.skip("NumPy is the other library here")
    arrays = dict(zip(("x", *Weights._fields[:4]), put(backend, (X, *W[:4])), strict=True))
    arrays[argument] = np.asarray(dict(zip(arrays, (X, *W[:4]), strict=True))[argument])
    mine = "numpy" if argument == "x" else backend.library
    other = argument if argument != "x" else "W1"
    with pytest.raises(
        TypeError, match=rf"x and {other} must belong to one library, got x of {mine} and {other} of"
    ) as error:
        feed_forward(**arrays)
    assert "weights.to(like=x)" in str(error.value)
    assert "/" not in str(error.value)  # no path of a module in a message


def test_devices_of_array_api_strict():
    strict = pytest.importorskip("array_api_strict", reason="its devices need no hardware")
    near, far = (strict.asarray(X, device=strict.Device(name)) for name in ("device1", "device2"))
    weights = W.to(like=near)
    assert feed_forward(near, *weights).device == near.device
    with pytest.raises(ValueError, match=r"x and W1 must be on one device, got x on .*device2.* and W1 on .*device1"):
        feed_forward(far, *weights)
    assert feed_forward(far, *weights.to(like=far)).device == far.device


def test_devices_of_torch():
    torch = pytest.importorskip("torch", reason="its meta device needs no hardware")
    x = torch.ones(3, 4, device="meta")
    with pytest.raises(ValueError, match="got x on meta and W1 on cpu; move the weights"):
        feed_forward(x, *W.to(like=torch.ones(1)))


def test_devices_of_jax():
    jax = pytest.importorskip("jax", reason="its host devices need no hardware")
    if len(jax.devices()) < 2:
        pytest.skip("this process has one host device of JAX; conftest asks for several")
    first, second = jax.devices()[:2]
    weights = W.to(like=jax.numpy.ones(1, dtype="float64"))
    there = Weights(*(None if w is None else jax.device_put(w, second) for w in weights))
    x = jax.numpy.asarray(X)
    assert feed_forward(x, *there).devices() == {second}  # an uncommitted x follows
    with pytest.raises(ValueError, match=r"x and W1 must be on one device, got x on .* and W1 on"):
        feed_forward(jax.device_put(x, first), *there)
    assert jax.jit(lambda x, w: feed_forward(x, *w))(x, there).devices() == {second}


@pytest.mark.parametrize(
    ("module", "name", "told"),
    [
        ("marray", "MArray", "got marray.MArray: the mask would be lost"),
        ("blosc2.ndarray", "NDArray", "got blosc2.NDArray: its expressions of comparisons give wrong values"),
        ("blosc2.lazyexpr", "LazyExpr", "got blosc2.LazyExpr: its expressions of comparisons give wrong values"),
    ],
)
def test_libraries_of_the_standard_that_are_refused_by_name(module, name, told):
    """By their type alone, though they follow the standard: neither is imported."""
    kind = type(name, (), {"__module__": module, "__array_namespace__": lambda self: np})
    with pytest.raises(TypeError, match=f"x must be a plain array, {told}"):
        feed_forward(kind(), *W)
