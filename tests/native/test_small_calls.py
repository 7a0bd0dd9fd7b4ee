"""A small call is answered by its library's own short way: the same answers and the same errors as the long way's."""

import contextlib
import subprocess
import sys

import numpy as np
import pytest

from portable_ffn import ClippedGate, Weights, feed_forward, oracle
from portable_ffn._native import table
from portable_ffn._native.table import without_native
from tests.conftest import demand

LIBRARIES = ("numpy", "torch", "jax")
NAMES = ("x", "W1", "b1", "W2", "b2", "V", "c")


def zeros(library, *shape, dtype="float32"):
    """Zeros of a library, by its own words."""
    demand(library)
    module = {"numpy": "numpy", "torch": "torch", "jax": "jax.numpy"}[library]
    xp = pytest.importorskip(module)
    return xp.zeros(shape, dtype=getattr(xp, dtype))


def network(library, rows=2, gated=True, dtype="float32"):
    """Arguments by name, drawn at random."""
    rng = np.random.default_rng(3)
    shapes = {"x": (rows, 4), "W1": (4, 6), "b1": (6,), "W2": (6, 5), "b2": (5,)}
    if gated:
        shapes |= {"V": (4, 6), "c": (6,)}
    like = zeros(library, 1)
    return {
        name: Weights(rng.normal(size=shape), None, None, None).to(like=like, dtype=dtype).W1
        for name, shape in shapes.items()
    }


def warmed(library):
    """The type of the library's arrays, after a call that brings in its rows."""
    case = network(library)
    for activation in ("relu", "silu"):
        feed_forward(**case, activation=activation)
    return type(case["x"])


@contextlib.contextmanager
def counting(kind, monkeypatch):
    """How often the short way answered."""
    row, answers = table._small[kind], []

    def counted(*arguments):
        y = row(*arguments)
        if y is not None:
            answers.append(y)
        return y

    with monkeypatch.context() as patched:
        patched.setitem(table._small, kind, counted)
        yield answers


@pytest.mark.parametrize("bare", [(), ("b1",), ("b2", "c"), ("b1", "b2", "c")], ids=str)
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("activation", ["relu", "silu", "gelu_tanh"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_values(library, activation, gated, bare, monkeypatch):
    kind, case = warmed(library), network(library, gated=gated)
    case |= dict.fromkeys(bare)
    if not gated:
        case.pop("c", None)
    feed_forward(**case, activation=activation)
    with counting(kind, monkeypatch) as answers:
        y = feed_forward(**case, activation=activation)
    assert len(answers) == 1
    plain = [None if case.get(name) is None else np.asarray(case[name]) for name in NAMES]
    expected, bound = oracle.feed_forward(*plain, activation=activation)
    assert (np.abs(np.asarray(y, "float64") - expected) <= bound).all()


# What changes, by the library.
FAULTS = {
    "no activation of that name": lambda library: {"activation": "gelus"},
    "a gate without V": lambda library: {"V": None, "c": None, "activation": ClippedGate(7.0)},
    "c without V": lambda library: {"V": None},
    "no W1": lambda library: {"W1": None},
    "no W2": lambda library: {"W2": None},
    "a list": lambda library: {"W1": [[1.0] * 6] * 4},
    "a scalar": lambda library: {"x": zeros(library)},
    "x of another width": lambda library: {"x": zeros(library, 2, 3)},
    "W1 turned": lambda library: {"W1": zeros(library, 6, 4)},
    "W2 turned": lambda library: {"W2": zeros(library, 5, 6)},
    "three axes": lambda library: {"W2": zeros(library, 1, 6, 5)},
    "b1 of one number": lambda library: {"b1": zeros(library, 1)},
    "b1 a row": lambda library: {"b1": zeros(library, 1, 6)},
    "b2 a scalar": lambda library: {"b2": zeros(library)},
    "b2 of one number": lambda library: {"b2": zeros(library, 1)},
    "V of another width": lambda library: {"V": zeros(library, 4, 1)},
    "c of one number": lambda library: {"c": zeros(library, 1)},
    "complex": lambda library: {"x": zeros(library, 2, 4, dtype="complex64")},
    "complex weight": lambda library: {"W2": zeros(library, 6, 5, dtype="complex64")},
    "another library": lambda library: {"b2": zeros("numpy" if library != "numpy" else "torch", 5)},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_faults_are_told_as_the_long_way_tells_them(library, fault):
    warmed(library)
    case = {"activation": "relu", **network(library), **FAULTS[fault](library)}
    told = []
    for context in (contextlib.nullcontext(), without_native()):
        with context, pytest.raises((TypeError, ValueError)) as error:
            feed_forward(**case)
        told.append((error.type, str(error.value)))
    assert told[0] == told[1]


@pytest.mark.parametrize("changed", NAMES)
@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "bool"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_another_dtype_of_one_argument_is_seen(library, dtype, changed):
    warmed(library)
    case = network(library)
    case[changed] = Weights(case[changed], None, None, None).to(dtype=dtype).W1
    y = feed_forward(**case, activation="silu")
    with without_native():
        expected = feed_forward(**case, activation="silu")
    assert y.dtype == expected.dtype
    np.testing.assert_allclose(np.asarray(y), np.asarray(expected), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("library", LIBRARIES)
def test_subclasses_and_integers_take_the_long_way(library, monkeypatch):
    kind, case = warmed(library), network(library)
    with counting(kind, monkeypatch) as answers:
        feed_forward(**case, activation=lambda h: h)
        feed_forward(**case, activation=ClippedGate(7.0))
        if library == "numpy":
            feed_forward(**case | {"b2": case["b2"].view(np.memmap)})
            feed_forward(**case | {"W1": case["W1"].astype(">f4")})
            feed_forward(**case | {"x": case["x"][:0]})
        assert not answers


def test_pytorch_is_not_short_where_somebody_looks(monkeypatch):
    torch = pytest.importorskip("torch")
    kind, case = warmed("torch"), network("torch")
    x, others = case.pop("x"), case

    def run(x):
        return feed_forward(x, **others, activation="silu")

    expected = run(x)
    with counting(kind, monkeypatch) as answers:
        torch.testing.assert_close(torch.vmap(run)(x[:, None])[:, 0], expected)
        torch.func.jvp(run, (x,), (x,))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert run(x).dtype is torch.bfloat16
        assert not answers
        run(x)
        assert len(answers) == 1


@pytest.mark.parametrize("activation", ["relu", "silu", "relu2", "elu", "hard_swish", "mish"])
def test_gradients_through_the_short_way_of_pytorch(activation):
    torch = pytest.importorskip("torch")
    warmed("torch")
    given = [array.double() for array in network("torch", dtype="float64").values()]
    for alone in range(len(given)):
        # One leaf at a time, the others constants: what is kept must not have been written to.
        def through(leaf, alone=alone):
            return feed_forward(*given[:alone], leaf, *given[alone + 1 :], activation=activation)

        assert torch.autograd.gradcheck(through, (given[alone].clone().requires_grad_(),))


@pytest.mark.parametrize("rows", [3, 300])
@pytest.mark.parametrize("sparse", ["x", "W1", "W2", "V"])
def test_sparse_tensors_of_pytorch(sparse, rows):
    pytest.importorskip("torch")
    warmed("torch")
    case = network("torch", rows=rows)
    expected = feed_forward(**case, activation="silu")
    y = feed_forward(**case | {sparse: case[sparse].to_sparse()}, activation="silu")
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 2, 5000])
def test_memmaps_give_plain_arrays(rows, tmp_path):
    plain = network("numpy", rows=rows, gated=False)
    mapped = {}
    for name, array in plain.items():
        np.save(tmp_path / f"{name}.npy", array)
        mapped[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    y = feed_forward(**mapped)
    assert type(y) is np.ndarray
    np.testing.assert_array_equal(y, feed_forward(**plain))


def test_without_native_no_row_answers():
    case = network("numpy")
    feed_forward(**case)
    kind = np.ndarray
    assert table.row("numpy") is not None
    assert table.small(kind) is not None
    with without_native():
        assert table.row("numpy") is table.small(kind) is None
        with without_native():
            assert table.row("numpy") is table.small(kind) is None
        assert table.row("numpy") is table.small(kind) is None
    assert table.row("numpy") is not None
    assert table.small(kind) is not None


def test_without_native_holds_for_a_first_call_in_another_thread():
    code = """
import threading
import numpy as np
from portable_ffn import feed_forward
from portable_ffn._native import table
one = np.ones((1, 1))
with table.without_native():
    thread = threading.Thread(target=feed_forward, args=(one, one, None, one, None))
    thread.start()
    thread.join()
    assert not table._loaded and not table._small
feed_forward(one, one, None, one, None)
assert table._loaded.keys() == {"numpy"} and np.ndarray in table._small
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_other_devices_of_pytorch_are_told():
    torch = pytest.importorskip("torch")
    warmed("torch")
    case = network("torch")
    case["b2"] = torch.zeros(5, device="meta")
    with pytest.raises(ValueError, match="one device"):
        feed_forward(**case)
