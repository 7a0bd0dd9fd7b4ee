"""The native rows: what blocks, tiles and memory used in place could break, and what each row must leave alone."""

import itertools
import math
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest

from portable_ffn import ACTIVATIONS, ClippedGate, Weights, feed_forward, oracle
from portable_ffn._native.blocks import FEWEST, HIDDEN_BYTES, MOST, block_rows, blocks
from portable_ffn._native.table import NATIVE, WHOLE, without_native
from tests.conftest import demand

LIBRARIES = ("numpy", "torch", "jax")
FLOATS = ("float32", "float64")
GATE = ClippedGate(2.0, 1.702, 1.0)
LATE = ClippedGate(1.0, clip="after")
# Two blocks on NumPy and PyTorch, the second shorter, and many tiles.
ROWS, D_MODEL, D_FF = 2501, 5, 300


def put(library, array, dtype=None):
    demand(library)
    return Weights(array, None, None, None).to(like=anchor(library), dtype=dtype or array.dtype.name).W1


def anchor(library):
    if library == "numpy":
        return np.zeros(1)
    module = pytest.importorskip({"torch": "torch", "jax": "jax.numpy"}[library])
    return module.zeros(1)


def read(array):
    return np.asarray(array.detach() if hasattr(array, "detach") else array)


def network(dtype, gated=True, rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.normal(size=shape).astype(dtype)

    x = normal(rows, D_MODEL)
    weights = [normal(D_MODEL, D_FF), normal(D_FF), normal(D_FF, D_MODEL) / 8, normal(D_MODEL)]
    return [x, *weights, *([normal(D_MODEL, D_FF), normal(D_FF)] if gated else [None, None])]


def agrees(y, arrays, activation, rows=slice(None)):
    """Every given row of y is within the oracle's bound."""
    expected, bound = oracle.feed_forward(arrays[0][rows], *arrays[1:], activation=activation)
    error = np.abs(read(y)[rows].astype("float64") - expected)
    wrong = ~(error <= bound)
    return not wrong.any() or f"{wrong.sum()} outside the bound, the first at {np.argwhere(wrong)[0]}"


# On JAX each name is compiled: here those that it has formulas of its own for; the matrix has them all.
OWN = ("relu", "gelu", "gelu_tanh", "quick_gelu", "silu")
NAMED = [(library, name) for library in LIBRARIES for name in (OWN if library == "jax" else ACTIVATIONS)]
GATES = [(library, gate) for library in LIBRARIES for gate in (GATE, LATE)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("library", "activation"), [*NAMED, *GATES], ids=str)
def test_values_in_blocks(library, dtype, activation):
    arrays = network(dtype)
    y = feed_forward(*(put(library, a) for a in arrays), activation=activation)
    some = np.r_[0:20, ROWS // 2 - 10 : ROWS // 2 + 10, ROWS - 20 : ROWS]
    assert agrees(y, arrays, activation, some) is True


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_row_of_a_long_batch_is_that_of_a_short_one(library, gated):
    arrays = network("float64", gated)
    given = [None if a is None else put(library, a) for a in arrays]
    whole = read(feed_forward(*given, activation="gelu"))
    for start in range(0, ROWS, 97):
        part = read(feed_forward(given[0][start : start + 97], *given[1:], activation="gelu"))
        np.testing.assert_allclose(whole[start : start + 97], part, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu", "mish", GATE], ids=str)
@pytest.mark.parametrize("library", LIBRARIES)
def test_what_is_not_finite_stays_in_its_row(library, activation, value):
    arrays = network("float32")
    clean = read(feed_forward(*(put(library, a) for a in arrays), activation=activation))
    arrays[0][[7, 1500], 2] = value
    y = read(feed_forward(*(put(library, a) for a in arrays), activation=activation))
    others = np.delete(np.arange(ROWS), [7, 1500])
    np.testing.assert_allclose(y[others], clean[others], rtol=1e-4, atol=1e-4)
    assert not np.isfinite(y[[7, 1500]]).any()


ENDS = (-math.inf, -1e30, -1000.0, -88.8, -30.0, -0.0, 0.0, 30.0, 88.8, 1000.0, 1e30, math.inf, math.nan)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("library", "name"), NAMED)
def test_ends_of_the_line(library, name, dtype):
    ends = np.array(ENDS * 3, dtype)[:, None]  # enough for vectorised kernels
    one = put(library, np.ones((1, 1), dtype))
    given = put(library, ends), one, None, one, None
    y = read(feed_forward(*given, activation=name))[:, 0]
    with without_native():
        expected = read(feed_forward(*given, activation=name))[:, 0]
    for h, got, wanted in zip(ends[:, 0], y, expected, strict=True):
        assert (math.isnan(got), math.isinf(got)) == (math.isnan(wanted), math.isinf(wanted)), (
            f"at {h}: {got}, {wanted}"
        )
    finite = np.isfinite(expected)
    np.testing.assert_allclose(y[finite], expected[finite], rtol=2e-6, atol=1e-5 if dtype == "float32" else 1e-13)
    if name in ("silu", "gelu", "gelu_tanh", "quick_gelu", "mish", "hard_swish"):
        assert math.isnan(y[0])
        assert y[len(ENDS) - 2] == math.inf


@pytest.mark.parametrize("dtype", FLOATS)
def test_ends_of_the_line_in_tiles_on_pytorch(dtype):
    """Many numbers go by formulas of our own, a few by PyTorch's kernel."""
    one = put("torch", np.ones((1, 1), dtype))
    few = read(feed_forward(put("torch", np.array(ENDS, dtype)[:, None]), one, None, one, None, activation="gelu_tanh"))
    h = put("torch", np.tile(np.array(ENDS, dtype), 10_001)[:, None])
    y = read(feed_forward(h, one, None, one, None, activation="gelu_tanh")).reshape(-1, len(ENDS))
    np.testing.assert_allclose(y, np.broadcast_to(few.T, y.shape), rtol=2e-6 if dtype == "float32" else 1e-14)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("library", ["numpy", "jax"])
def test_tail_of_the_exact_gelu(library, dtype):
    last = {"float32": 13.0, "float64": 37.0}[dtype]
    h = -np.linspace(0, last, 4001).astype(dtype)[1:]
    one = put(library, np.ones((1, 1), dtype))
    y = read(feed_forward(put(library, h[:, None]), one, None, one, None, activation="gelu"))[:, 0].astype("float64")
    t = [float(v) for v in -h]
    exact = np.array([-v * math.erfc(v / math.sqrt(2)) / 2 for v in t])
    error = np.abs(y / exact - 1)
    # exp(-x**2 / 2) of a rounded argument alone errs by x**2 / 2 of these.
    unit = np.finfo(dtype).eps / 2
    assert (error <= (6 + np.square(h, dtype="float64")) * unit + 2e-16 * np.square(t)).all()
    assert error.max() < 1e-5


def test_products_of_subclasses_and_users_functions_go_the_generic_way():
    class Marked(np.ndarray):
        pass

    arrays = network("float64", gated=False, rows=3)
    plain = feed_forward(*arrays)
    marked = feed_forward(arrays[0].view(Marked), *arrays[1:])
    np.testing.assert_allclose(np.asarray(marked), plain, rtol=1e-12)
    shapes = []
    feed_forward(
        np.ones((2, 3, D_MODEL)),
        *arrays[1:],
        activation=lambda h: shapes.append(h.shape) or h,
    )
    assert shapes == [(2, 3, D_FF)]


def spoilt(arrays):
    """The same numbers in memory that is read-only, transposed, strided, reversed, of the other byte order."""
    ways = (
        lambda a: np.ascontiguousarray(a.T).T,
        lambda a: np.repeat(a, 2, axis=0)[::2],
        lambda a: np.ascontiguousarray(np.flip(a))[tuple([slice(None, None, -1)] * a.ndim)],
        lambda a: np.repeat(a, 3, axis=-1)[..., ::3],
        lambda a: a.astype(a.dtype.newbyteorder()),
    )
    for way in ways:
        changed = [None if a is None else way(a) for a in arrays]
        for a in changed:
            if a is not None:
                a.flags.writeable = False
        yield changed


@pytest.mark.parametrize("rows", [1, 3, 1500])
def test_memory_of_any_kind(rows):
    arrays = network("float64", rows=rows)
    expected = feed_forward(*arrays, activation="silu")
    for changed in spoilt(arrays):
        y = feed_forward(*changed, activation="silu")
        np.testing.assert_allclose(y, expected, rtol=1e-11, atol=1e-12)
        assert y.dtype == changed[0].dtype.newbyteorder("=")


@pytest.mark.parametrize("rows", [1, 3, 1500])
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("activation", ["relu", "gelu", "identity", GATE], ids=str)
def test_arguments_are_never_written(library, activation, rows):
    arrays = network("float32", rows=rows)
    given = [put(library, a) for a in arrays]
    before = [read(a).copy() for a in given]
    y = feed_forward(*given, activation=activation)
    for a, b in zip(given, before, strict=True):
        np.testing.assert_array_equal(read(a), b)
    assert not any(np.shares_memory(read(y), read(a)) for a in given)


@pytest.mark.parametrize("shape", [(0, D_MODEL), (2, 0, D_MODEL), (D_MODEL,), (1, D_MODEL), (1, 1, 1, D_MODEL)])
@pytest.mark.parametrize("library", LIBRARIES)
def test_leading_axes(library, shape):
    arrays = network("float64", rows=1)
    x = np.broadcast_to(arrays[0][0], shape)
    y = read(feed_forward(*(put(library, a) for a in (np.array(x), *arrays[1:])), activation="silu"))
    row = feed_forward(*arrays, activation="silu")[0]
    assert y.shape == (*shape[:-1], D_MODEL)
    np.testing.assert_allclose(y, np.broadcast_to(row, y.shape), rtol=1e-12)


@pytest.mark.parametrize("rows", [1, 3, 1500])
def test_numpys_warnings_are_kept_and_its_state_is_left(rows):
    arrays = network("float32", rows=rows)
    arrays[0][0] = 1e38
    arrays[1][:, ::2] = 1e38
    with np.errstate(all="raise"):
        before = np.geterr()
        y = feed_forward(*arrays, activation="silu")
        assert np.geterr() == before
        assert not np.isfinite(y[0]).all()
        with pytest.raises(FloatingPointError):
            np.float32(1e38) * np.float32(1e38)


def test_a_network_in_the_midst_of_another_of_the_same_thread():
    from portable_ffn._native.numpy import quiet as _native_numpy_quiet

    arrays = network("float32", rows=3)
    expected = feed_forward(*arrays)
    inside = _native_numpy_quiet._local.quiet.run(feed_forward, *arrays)
    np.testing.assert_array_equal(inside, expected)


@pytest.mark.parametrize("library", LIBRARIES)
def test_threads(library):
    cases = [[put(library, a) for a in network("float32", rows=700, seed=seed)] for seed in range(4)]
    expected = [read(feed_forward(*case, activation="gelu")) for case in cases]
    wrong = []

    def work(i):
        for _ in range(5):
            y = read(feed_forward(*cases[i], activation="gelu"))
            if not np.allclose(y, expected[i], rtol=1e-5, atol=1e-5):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i % 4,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("table", [NATIVE, WHOLE])
def test_without_native(table):
    feed_forward(*network("float32", rows=1))
    rows = dict(table)
    assert rows
    with without_native():
        assert not table
        with without_native():
            assert not table
        assert not table
    assert dict(table) == rows


@pytest.mark.parametrize("gated", [False, True])
def test_memory_of_a_long_batch_on_numpy(gated):
    rows, d_model, d_ff = 40_000, 8, 512
    x = np.zeros((rows, d_model))
    W, U = np.zeros((d_model, d_ff)), np.zeros((d_ff, d_model))
    feed_forward(x[:2000], W, None, U, None, *([W] if gated else []), activation="gelu")
    tracemalloc.start()
    y = feed_forward(x, W, None, U, None, *([W] if gated else []), activation="gelu")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < y.nbytes + HIDDEN_BYTES + 4 * 2**20 < rows * d_ff * 8


def test_blocks():
    for rows in (1, FEWEST, MOST, MOST + 1, 10 * MOST + 7):
        for row_bytes in (1, 8 * 2048, HIDDEN_BYTES):
            size = block_rows(rows, row_bytes)
            cut = list(blocks(rows, size))
            assert cut[0][0] == 0
            assert cut[-1][1] == rows
            assert all(stop == start for (_, stop), (start, _) in itertools.pairwise(cut))
            assert min(rows, FEWEST) // 2 <= size <= MOST
            assert size * row_bytes <= max(HIDDEN_BYTES, FEWEST * row_bytes)


def test_bfloat16_by_its_bits():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    from portable_ffn._native.numpy.network import _widen

    every = np.arange(2**16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(_widen(every, np.dtype("float32")), every.astype("float32"))
    np.testing.assert_array_equal(_widen(every[::3], np.dtype("float32")), every[::3].astype("float32"))


@pytest.mark.parametrize("rows", [1, 3, 1500])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("widened", [True, False])
@pytest.mark.parametrize("recorded", [True, False])
def test_half_precision_on_pytorch(monkeypatch, dtype, rows, widened, recorded):
    torch = pytest.importorskip("torch")
    from portable_ffn._native.torch import network as _native_torch

    monkeypatch.setattr(_native_torch, "_WIDENED", frozenset({"float16", "bfloat16"} if widened else {"float16"}))
    given = [torch.from_numpy(a).to(getattr(torch, dtype)) for a in network("float32", rows=rows)]
    exact = [a.double().numpy() for a in given]
    expected, bound = oracle.feed_forward(exact[0][:3], *exact[1:], activation="silu", dtype=dtype)
    given[0].requires_grad_(recorded)
    y = feed_forward(*given, activation="silu")
    assert y.dtype is given[0].dtype
    assert y.requires_grad == recorded
    assert (np.abs(y.detach()[:3].double().numpy() - expected) <= bound).all()


@pytest.mark.parametrize("widened", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("recorded", [True, False])
def test_autocast(monkeypatch, widened, bias, recorded):
    torch = pytest.importorskip("torch")
    from portable_ffn._native.torch import network as _native_torch

    monkeypatch.setattr(_native_torch, "_WIDENED", frozenset({"float16", "bfloat16"} if widened else {"float16"}))
    x, W1, b1, W2, b2, _, _ = (None if a is None else torch.from_numpy(a) for a in network("float32", False, rows=7))
    x.requires_grad_(recorded)
    biases = (b1, b2) if bias else (None, None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = feed_forward(x, W1, biases[0], W2, biases[1], activation="gelu")
    assert y.dtype is torch.bfloat16
    plain = feed_forward(x, W1, biases[0], W2, biases[1], activation="gelu")
    torch.testing.assert_close(y.float(), plain, rtol=0.05, atol=0.3)


def saved_bytes(torch, forward):
    """What autograd keeps for the way back, each storage once."""
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = forward()
    y.sum().backward()
    return sum(kept.values())


@pytest.mark.parametrize("shape", [(64, 16), (4, 16, 16)])
@pytest.mark.parametrize("name", ["relu", "gelu", "gelu_tanh", "silu"])
def test_training_on_pytorch_keeps_no_more_than_sequential(name, shape):
    torch = pytest.importorskip("torch")
    nn = torch.nn
    module = {"relu": nn.ReLU(), "gelu": nn.GELU(), "gelu_tanh": nn.GELU(approximate="tanh"), "silu": nn.SiLU()}[name]
    plain = nn.Sequential(nn.Linear(16, 64), module, nn.Linear(64, 16))
    x = torch.randn(shape)
    leaves = [plain[0].weight.t(), plain[0].bias, plain[2].weight.t(), plain[2].bias]
    ours = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    # The second call, after whatever the first one set up.
    for _ in range(2):
        for leaf in (mine, theirs, *ours, *plain.parameters()):
            leaf.grad = None
        needs = saved_bytes(torch, lambda: feed_forward(mine, *ours, activation=name))
        usual = saved_bytes(torch, lambda: plain(theirs))
    assert needs <= usual
    torch.testing.assert_close(mine.grad, theirs.grad)
    torch.testing.assert_close(ours[0].grad, plain[0].weight.grad.t())
    torch.testing.assert_close(ours[3].grad, plain[2].bias.grad)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gradients_of_the_native_rows_are_those_of_the_formulas(name):
    torch = pytest.importorskip("torch")
    h = torch.tensor([-6.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0, 6.0], dtype=torch.float64)[:, None]
    one = torch.ones((1, 1), dtype=torch.float64)
    slopes = []
    for context in (without_native(), torch.enable_grad()):
        x = h.clone().requires_grad_()
        with context:
            feed_forward(x, one, None, one, None, activation=name).sum().backward()
        slopes.append(x.grad)
    torch.testing.assert_close(*slopes)


def test_jax_compiles_names_once_and_functions_never():
    jnp = pytest.importorskip("jax.numpy")
    from portable_ffn._native.jax.network import _compiled

    arrays = [jnp.asarray(a) for a in network("float32", rows=2)]
    _compiled.clear()
    for _ in range(3):
        feed_forward(*arrays, activation="gelu")
        feed_forward(*arrays, activation=ClippedGate(7.0))
        feed_forward(*arrays, activation=lambda h: h)
    assert set(_compiled) == {("gelu", False), (ClippedGate(7.0), False)}


def test_importing_the_table_loads_no_library():
    code = (
        "import sys, portable_ffn._native.table, portable_ffn._native.blocks\n"
        "print([name for name in ('numpy', 'torch', 'jax') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
