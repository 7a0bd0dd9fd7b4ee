"""Weights travel between every pair of libraries: the same numbers, the same memory where that is safe."""

import importlib
import subprocess
import sys

import numpy as np
import pytest

from portable_ffn import Weights, feed_forward, init_weights
from portable_ffn._arrays.dtype import dtype_name
from portable_ffn._arrays.library import library_of
from portable_ffn._transfer.table import TABLE
from portable_ffn.testing import BACKENDS

LIBRARIES = {row.name: row for row in BACKENDS.values() if ":" not in row.name and row.missing() is None}
PAIRS = [(source, target) for source in LIBRARIES for target in LIBRARIES]
VALUES = np.random.default_rng(0).standard_normal((3, 5))
every_pair = pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda name: name)


@pytest.fixture
def require_module(require):
    """The library of a backend, which skips or fails where it is missing."""
    return lambda name: importlib.import_module(require(name).library)


def weights_of(source, dtype):
    """Weights with all that can be missing missing, in one library."""
    return Weights(LIBRARIES[source].put(VALUES, dtype), None, LIBRARIES[source].put(VALUES.T, dtype), None)


def aligned(n):
    """Writable memory of NumPy at an address that JAX takes without a copy."""
    store = np.zeros(n + 16, dtype=np.float32)
    first = -(store.ctypes.data // 4) % 16
    return store[first : first + n].reshape(2, n // 2)


def address(array):
    """Where the numbers of an array lie."""
    return {
        "torch": lambda: array.data_ptr(),
        "jax": lambda: array.unsafe_buffer_pointer(),
        "numpy": lambda: array.ctypes.data,
    }[library_of(array)]()


def test_every_library_of_the_table_of_backends_has_a_row():
    assert {row.library for row in BACKENDS.values()} <= set(TABLE)


# --- the same numbers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "dtype"),
    [(source, target, dtype) for source, target in PAIRS for dtype in LIBRARIES[source].held_dtypes()],
)
def test_every_pair(source, target, dtype):
    weights = weights_of(source, dtype)
    like = LIBRARIES[target].put(np.zeros(2), "int64")
    if dtype not in LIBRARIES[target].dtypes:
        with pytest.raises(TypeError, match=rf"dtype must be one that {target.replace('-', '_')} holds .* got {dtype}"):
            weights.to(like=like)
        return
    moved = weights.to(like=like)  # an integer says where to, not which dtype
    assert library_of(moved.W1) == library_of(like)
    assert (moved.b1, moved.b2, moved.V, moved.c) == (None,) * 4
    for before, after in zip(weights, moved, strict=True):
        if before is not None:
            assert dtype_name(after.dtype) == dtype
            np.testing.assert_array_equal(LIBRARIES[target].take(after), LIBRARIES[source].take(before))


@every_pair
def test_the_dtype_of_like_and_the_dtype_that_is_asked_for(source, target):
    weights = weights_of(source, "float32")
    wide = weights.to(like=LIBRARIES[target].put(np.zeros(2), "float64"))
    assert dtype_name(wide.W1.dtype) == "float64"
    narrow = weights_of(source, "float64").to(like=LIBRARIES[target].put(np.zeros(2), "float64"), dtype="float32")
    assert dtype_name(narrow.W1.dtype) == "float32"
    np.testing.assert_array_equal(LIBRARIES[target].take(narrow.W1), VALUES.astype("float32"))


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_dtype_alone_stays_in_the_library(library):
    weights = weights_of(library, "float64")
    for dtype in ("float32", getattr(LIBRARIES[library].put(VALUES, "float32"), "dtype", None)):
        moved = weights.to(dtype=dtype)
        assert library_of(moved.W1) == library_of(weights.W1)
        assert dtype_name(moved.W1.dtype) == "float32"
    with pytest.raises(TypeError, match=r"dtype must be one that .* holds as configured, got float33; ask for another"):
        weights.to(dtype="float33")


def test_a_number_beyond_the_dtype_becomes_infinite_without_a_warning():
    wide = Weights(np.full((1, 1), 1e300), None, np.ones((1, 1)), None)
    assert np.isposinf(wide.to(dtype="float32").W1).all()
    assert np.isposinf(wide.to(dtype="bfloat16").W1.astype("float64")).all()


def test_what_is_no_array():
    with pytest.raises(TypeError, match=r"array must be an array .* got list"):
        Weights([[1.0]], None, [[1.0]], None).to(dtype="float32")
    with pytest.raises(TypeError, match=r"like must be an array .* got str"):
        init_weights(2, 3).to(like="torch")
    with pytest.raises(ValueError, match=r'None or "cpu", the one place for arrays of numpy, got .cuda.'):
        init_weights(2, 3).to(device="cuda")
    assert init_weights(2, 3).to(device="cpu").d_model == 2


# --- the same memory, where that is safe ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_numpy_and_torch_share_memory_both_ways(require_module, dtype):
    torch = require_module("torch")
    array = LIBRARIES["numpy"].put(VALUES, dtype)
    for view in (array, array.T, array[1:, ::2]):
        there = Weights(view, None, view.T, None).to(like=torch.zeros(1, dtype=getattr(torch, dtype)))
        assert address(there.W1) == address(view)
        assert there.W1.shape == view.shape
        back = there.to(like=array)
        assert address(back.W1) == address(view)
        assert back.W1.flags.writeable
        np.testing.assert_array_equal(back.W1.astype(float), view.astype(float))
    there.W1[0, 0] = 8
    assert view[0, 0] == 8


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_torch_to_jax_shares_memory(require_module, dtype):
    torch, jax = require_module("torch"), require_module("jax")
    tensor = torch.ones(64, 32, dtype=getattr(torch, dtype))
    for view in (tensor, tensor.T):
        moved = Weights(view, None, view.T, None).to(like=jax.numpy.zeros(1, dtype=dtype))
        assert address(moved.W1) == address(view)
    torn = torch.arange(24.0).reshape(6, 4)[::2, ::2]  # strides that JAX has no layout for
    moved = Weights(torn, None, torn.T, None).to(like=jax.numpy.zeros(1, dtype="float32"))
    np.testing.assert_array_equal(moved.W1, torn.numpy())


def test_numpy_to_jax_shares_aligned_memory_and_jax_to_numpy_all(require_module):
    jax = require_module("jax")
    array = aligned(2048)
    moved = Weights(array, None, array.T, None).to(like=jax.numpy.zeros(1, dtype="float32"))
    assert address(moved.W1) == address(array)
    back = moved.to(like=array)
    assert address(back.W1) == address(array)
    assert not back.W1.flags.writeable


def read_only():
    array = np.ones((4, 4), dtype=np.float32)
    array.flags.writeable = False
    return array


def test_memory_that_must_not_be_written_never_becomes_a_writable_alias(require_module):
    torch = require_module("torch")
    like = torch.zeros(1)
    sources = [LIBRARIES[name].put(np.ones((4, 4)), "float32") for name in ("jax", "mlx") if name in LIBRARIES]
    if "array-api-strict" in LIBRARIES:
        sources.append(importlib.import_module("array_api_strict").asarray(read_only()))
    for source in (*sources, read_only(), np.broadcast_to(np.float32(1), (4, 4))):
        tensor = Weights(source, None, source, None).to(like=like).W1
        tensor.zero_()
        still = Weights(source, None, source, None).to(like=read_only()).W1
        np.testing.assert_array_equal(still, np.ones((4, 4)))
    for source in sources[:2]:
        assert not Weights(source, None, source, None).to(like=read_only()).W1.flags.writeable


def test_strides_and_byte_orders_that_the_target_has_not():
    swapped = np.arange(6.0).reshape(2, 3).astype(">f8")
    backwards = np.arange(6.0).reshape(2, 3)[::-1, ::-1]
    for array in (swapped, backwards):
        for name, row in LIBRARIES.items():
            moved = Weights(array, None, array.T, None).to(like=row.put(np.zeros(1), "float64"))
            np.testing.assert_array_equal(row.take(moved.W1), array, err_msg=name)


# --- autograd, traces, devices -------------------------------------------------------------------------------------


def test_cut_from_autograd_between_libraries_and_differentiable_within_one(require_module):
    torch = require_module("torch")
    W = torch.ones(2, 2, requires_grad=True)
    weights = Weights(W, None, W.T, None)
    for row in LIBRARIES.values():
        moved = weights.to(like=row.put(np.zeros(1), "float32"))
        if row.library != "torch":
            np.testing.assert_array_equal(row.take(moved.W1), np.ones((2, 2)))
    assert W.requires_grad
    weights.to(dtype="float64").W1.sum().backward()
    assert (W.grad == 1).all()
    assert weights.to(like=torch.zeros(1)).W1 is W


def test_traced_arrays_stay_in_their_library(require_module):
    jax = require_module("jax")
    jnp = jax.numpy
    weights = init_weights(2, 3, like=jnp.zeros(1, dtype="float32"))

    @jax.jit
    def total(x, weights):
        inside = weights.to(like=x)  # both traced
        outside = init_weights(2, 3).to(like=x)  # NumPy's constants, where to is traced
        return inside.W1.sum() + outside.W1.sum()

    x = jnp.zeros(1, dtype="float64")
    assert total(x, weights).dtype == x.dtype
    gradient = jax.grad(lambda w: w.to(dtype="float64").W1.sum())(Weights(weights.W1, None, weights.W2, None))
    assert gradient.W1.dtype == jnp.float32
    with pytest.raises(jax.errors.TracerArrayConversionError):
        jax.jit(lambda w: w.to(like=np.zeros(1)).W1.sum())(weights)


def test_torch_compile_follows_a_move_within_torch(require_module):
    torch = require_module("torch")
    weights = init_weights(2, 3, like=torch.zeros(1))
    compiled = torch.compile(lambda x, w: w.to(like=x).W1.sum(), fullgraph=True, backend="eager")
    assert compiled(torch.zeros(1, dtype=torch.float64), weights).dtype == torch.float64


def test_devices(require_module):
    weights = init_weights(2, 3)
    torch = require_module("torch")
    assert weights.to(like=torch.zeros(1, device="meta")).W1.is_meta
    assert weights.to(like=torch.zeros(1), device="meta").W1.is_meta
    jax = require_module("jax")
    first, second = jax.devices()[:2]
    there = jax.device_put(jax.numpy.zeros(1), second)
    assert weights.to(like=there).W1.devices() == {second}
    assert weights.to(like=there, device=first).W1.devices() == {first}
    assert weights.to(like=there).to(device="cpu").W1.devices() == {first}
    spread = jax.device_put(
        jax.numpy.zeros(2),
        jax.sharding.NamedSharding(jax.make_mesh((2,), ("x",)), jax.sharding.PartitionSpec("x")),
    )
    for moved in (weights.to(like=spread), init_weights(2, 3, like=torch.zeros(1)).to(like=spread)):
        assert not moved.W1.committed
        assert feed_forward(jax.numpy.stack([spread] * 2), *moved).shape == (2, 2)
    strict = require_module("array-api-strict")
    far = weights.to(like=strict.zeros(1, device=strict.Device("device2"), dtype=strict.float64))
    assert far.W1.device == strict.Device("device2")
    np.testing.assert_array_equal(far.to(like=np.zeros(1)).W1, weights.W1)
    assert far.to(device=strict.Device("device1")).W1.device == strict.Device("device1")


@pytest.mark.parametrize(
    ("library", "device"),
    [("torch", "xpu:99"), ("torch", "nowhere"), ("jax", "tpu"), ("jax", "nowhere")],
)
def test_a_device_that_is_not_there(require_module, library, device):
    module = require_module(library)
    like = (module.numpy if library == "jax" else module).zeros(1)
    with pytest.raises(ValueError, match=f"device must be one that .* has here, such as cpu, got '{device}'"):
        init_weights(2, 3).to(like=like, device=device)


# --- a target that narrows -----------------------------------------------------------------------------------------

NARROW = """
import numpy as np, jax.numpy as jnp, portable_ffn, torch
like = jnp.zeros(1)
wide = portable_ffn.init_weights(2, 64)
for weights in (wide, wide.to(like=torch.zeros(1, dtype=torch.float64))):
    for arguments in ({}, {"dtype": "float64"}):
        try:
            weights.to(like=jnp.zeros(1, dtype="int32"), **arguments)
        except TypeError as error:
            assert "jax holds as configured, got float64; ask for another of" in str(error), error
            assert "jax_enable_x64" in str(error), error
        else:
            raise AssertionError("float64 was narrowed silently")
    assert weights.to(like=like).W1.dtype == "float32"
    assert (np.asarray(weights.to(like=like).W1) == wide.W1.astype("float32")).all()
try:
    whole = np.ones((2, 2), dtype="int64")
    portable_ffn.Weights(whole, None, whole, None).to(like=jnp.zeros(1, dtype="int8"))
except TypeError as error:
    assert "got int64" in str(error), error
else:
    raise AssertionError("int64 was narrowed silently")
"""


def test_jax_without_x64_is_never_narrowed_silently(require_module):
    require_module("jax"), require_module("torch")
    done = subprocess.run([sys.executable, "-W", "error", "-c", NARROW], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
