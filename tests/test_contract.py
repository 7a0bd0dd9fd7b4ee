"""Types, dtypes, shapes and devices: one rule on every library, and one clear error each."""

import copy
import pickle
import threading
import warnings

import numpy as np
import pytest

from portable_ffn import (
    ACTIVATIONS,
    ClippedGate,
    Weights,
    feed_forward,
    hidden,
    init_weights,
    layer_norm,
    oracle,
    rms_norm,
)
from portable_ffn._arrays.dtype import dtype_name
from portable_ffn.testing import BACKENDS, assert_agrees

W = init_weights(4, 8)
G = init_weights(4, 8, gated=True)
X = np.random.default_rng(0).standard_normal((3, 4))

# One row a library; whether a demanded one is missing is the matrix's matter.
LIBRARIES = [row for row in BACKENDS.values() if ":" not in row.name and row.missing() is None]
# ndonnx takes a second or two a graph: two activations there, every one elsewhere.
EVERY_ACTIVATION = [
    (row, name) for row in LIBRARIES for name in (("relu", "gelu") if row.name == "ndonnx" else sorted(ACTIVATIONS))
]
every_activation = pytest.mark.parametrize(
    ("backend", "activation"), EVERY_ACTIVATION, ids=lambda value: getattr(value, "name", value)
)
every_backend = pytest.mark.parametrize("backend", LIBRARIES, ids=lambda backend: backend.name)


def put(backend, arrays, dtype="float64"):
    return [None if a is None else backend.put(a, dtype) for a in arrays]


# --- what is no array, or none that can be meant -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "match"),
    [
        (None, r"x must be an array .*got None; make an array"),
        ([[1.0] * 4], r"x must be an array .*got list"),
        (1.0, r"x must be an array .*got float"),
        ("text", r"x must be an array .*got str"),
        (np.ndarray.__new__(np.matrix, (3, 4)), r"x must be a plain array, got numpy\.matrix: .*np\.asarray\(x\)"),
        (np.ma.masked_array(np.ones((3, 4)), mask=np.eye(3, 4)), r"MaskedArray: the mask would be lost.*x\.filled"),
        (X + 0j, r"x must be real floating \(bfloat16, .*\), integer or boolean, got dtype complex128; cast it"),
        (X.astype(object), r"got dtype object"),
        (np.full((3, 4), "a"), r"got dtype str"),
        (X.astype(np.longdouble), r"got dtype (longdouble|float128|float96)"),
    ],
    ids=["none", "list", "float", "str", "matrix", "masked", "complex", "object", "string", "longdouble"],
)
def test_what_is_no_array(x, match):
    with pytest.raises(TypeError, match=match):
        feed_forward(x, *W)


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_every_argument_is_asked(place):
    wrong = list(W)
    wrong[place] = [1.0]
    with pytest.raises(TypeError, match=rf"{Weights._fields[place]} must be an array .*got list"):
        feed_forward(X, *wrong)
    wrong[place] = W[place].astype(complex)
    with pytest.raises(TypeError, match=rf"{Weights._fields[place]} must be real floating"):
        feed_forward(X, *wrong)


def test_float8_is_no_dtype_to_compute_in():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="NumPy's float8 comes from it")
    with pytest.raises(TypeError, match="got dtype float8_e4m3fn"):
        feed_forward(X.astype(ml_dtypes.float8_e4m3fn), *W)


def test_weights_that_are_missing():
    for place, name in ((0, "W1"), (2, "W2")):
        wrong = list(W)
        wrong[place] = None
        with pytest.raises(TypeError, match=f"{name} must be an array, got None; only biases and V may be None"):
            feed_forward(X, *wrong)
    with pytest.raises(TypeError, match="W1 must be an array, got None"):
        hidden(X, None, None)


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


# --- shapes --------------------------------------------------------------------------------------------------------

WRONG_SHAPES = {
    "x with another width": (
        {"x": X[:, :3]},
        r"x must have shape \(\.\.\., d_model\) with d_model = 4 as W1 has, got \(3, 3\)",
    ),
    "0-d x": ({"x": np.float64(1.0)}, r"x must have shape \(\.\.\., d_model\), at least one axis, got a 0-d array"),
    "W1 transposed": ({"W1": W.W1.T}, r"W1 must have shape \(d_model, d_ff\) .* got \(8, 4\); transpose it$"),
    "W2 transposed": ({"W2": W.W2.T}, r"^W2 must have shape \(d_ff, d_model\) = \(8, 4\), got \(4, 8\); transpose it$"),
    "W2 of another d_ff": ({"W2": W.W2[:5]}, r"W2 must have shape .* got \(5, 4\); W1 has d_ff = 8 columns"),
    "W1 of one axis": ({"W1": W.b1}, r"W1 must have two axes, \(d_model, d_ff\), got shape \(8,\)"),
    "W1 of three axes": ({"W1": W.W1[None]}, r"W1 must have two axes, .*got shape \(1, 4, 8\); .*vmap.*experts"),
    "W2 of three axes": ({"W2": W.W2[None]}, r"W2 must have two axes"),
    "b1 of one number": (
        {"b1": W.b1[:1]},
        r"b1 must have shape \(d_ff,\) = \(8,\), .*got \(1,\); no bias is broadcast",
    ),
    "b1 of d_model": ({"b1": W.b2}, r"b1 must have shape \(d_ff,\) = \(8,\), .*got \(4,\)"),
    "b1 for each position": ({"b1": np.ones((3, 8))}, r"b1 must have shape .*got \(3, 8\)"),
    "b1 of no axis": ({"b1": np.float64(1.0)}, r"b1 must have shape .*got \(\)"),
    "b2 of d_ff": ({"b2": W.b1}, r"b2 must have shape \(d_model,\) = \(4,\), .*got \(8,\)"),
    "V transposed": (
        {"V": W.W1.T},
        r"V must have the shape of W1, \(d_model, d_ff\) = \(4, 8\), got \(8, 4\); transpose it",
    ),
    "c without V": ({"c": W.b1}, r"c must come with V"),
    "c of d_model": ({"V": W.W1, "c": W.b2}, r"c must have shape \(d_ff,\) = \(8,\)"),
    "both biases": ({"b1": W.b2, "b2": W.b1}, r"b1 must have shape .*; b2 must have shape"),
}


@pytest.mark.parametrize("fault", WRONG_SHAPES)
def test_wrong_shapes(fault):
    changes, match = WRONG_SHAPES[fault]
    with pytest.raises(ValueError, match=match):
        feed_forward(**{"x": X, **W._asdict(), **changes})


@every_backend
def test_wrong_shapes_fail_at_the_call_on_every_library(backend):
    x, *weights = put(backend, (X, *W))
    with pytest.raises(ValueError, match="W2 must have shape"):
        feed_forward(x, weights[0], weights[1], weights[0], weights[3])


@every_backend
@pytest.mark.parametrize("shape", [(4,), (0, 4), (2, 0, 4), (1, 4), (2, 3, 4), (2, 1, 3, 4)], ids=str)
@pytest.mark.parametrize("weights", [W, G], ids=["plain", "gated"])
def test_any_number_of_leading_axes(backend, shape, weights):
    x = np.random.default_rng(1).standard_normal(shape)
    moved = put(backend, (x, *weights))
    y = feed_forward(*moved, activation="silu")
    assert_agrees(y, moved[0], *oracle.feed_forward(x, *weights, activation="silu"))
    assert hidden(moved[0], moved[1], moved[2], *moved[5:], activation="silu").shape == (*shape[:-1], 8)


@every_backend
def test_no_hidden_unit_at_all(backend):
    x, W1, W2, b2 = put(backend, (X, np.ones((4, 0)), np.ones((0, 4)), W.b2))
    y = backend.take(feed_forward(x, W1, None, W2, b2))
    assert np.array_equal(y, np.broadcast_to(backend.take(b2), (3, 4)))


def test_a_projection_has_another_width():
    W2, b2 = np.ones((8, 5)), np.ones(5)
    assert feed_forward(X, W.W1, W.b1, W2, b2).shape == (3, 5)


def test_strides_of_every_kind():
    x = np.asfortranarray(X)
    y, bound = oracle.feed_forward(X, *W)
    for view in (
        x,
        X[::-1][::-1],
        np.repeat(X, 2, axis=0)[::2],
        np.lib.stride_tricks.as_strided(X, X.shape, X.strides),
    ):
        for W1 in (np.asfortranarray(W.W1), W.W1.T.copy().T, W.W1[:, ::-1].copy()[:, ::-1], W.W1[::-1].copy()[::-1]):
            before = view.copy(), W1.copy()
            assert_agrees(feed_forward(view, W1, *W[1:]), X, y, bound)
            assert np.array_equal(before[0], view)
            assert np.array_equal(before[1], W1)


def test_read_only_memory_is_read_only():
    arrays = [None if a is None else a.copy() for a in (X, *G)]
    for array in arrays:
        array.flags.writeable = False
    y = feed_forward(*arrays, activation="gelu")
    assert_agrees(y, X, *oracle.feed_forward(X, *G, activation="gelu"))


# --- dtypes --------------------------------------------------------------------------------------------------------

FLOATS = ("bfloat16", "float16", "float32", "float64")


def expected_dtype(one, other):
    if {one, other} == {"bfloat16", "float16"}:
        return "float32"
    return max(one, other, key=FLOATS.index)


@every_backend
@pytest.mark.parametrize("one", FLOATS)
@pytest.mark.parametrize("other", FLOATS)
@pytest.mark.parametrize(
    "activation", ["relu", "gelu", ClippedGate(np.float64(7.0), np.float64(1.702), np.float64(1.0))], ids=str
)
def test_the_widest_real_floating_dtype(backend, one, other, activation):
    if one not in backend.dtypes or other not in backend.dtypes or expected_dtype(one, other) not in backend.dtypes:
        pytest.skip(f"{backend.name} has no {one} or {other}")
    weights = W if isinstance(activation, str) else G
    x, *rest = put(backend, (X,), one) + put(backend, weights, other)
    y = feed_forward(x, *rest, activation=activation)
    assert dtype_name(y.dtype) == expected_dtype(one, other)
    rounded = [None if a is None else backend.take(a) for a in (x, *rest)]
    expected = oracle.feed_forward(*rounded, activation=activation, dtype=expected_dtype(one, other))
    assert_agrees(y, y, *expected)


@every_activation
@pytest.mark.parametrize("kind", ["int64", "bool"])
def test_integers_are_their_numbers(backend, kind, activation):
    numbers = np.asarray([[1, 2, 3, 4], [0, 1, 0, 2]]).astype(kind)
    weights = put(backend, W)
    y = feed_forward(backend.put(numbers, kind), *weights, activation=activation)
    assert dtype_name(y.dtype) == "float64"
    expected = oracle.feed_forward(numbers, *W, activation=activation)
    assert_agrees(y, y, *expected)


@every_backend
def test_integers_alone_become_the_default_float(backend):
    x = backend.put([[1, 2, 3, 4]], "int32")
    weights = [None if a is None else backend.put(a > 0, "int32") for a in W]
    y = feed_forward(x, *weights)
    default = "float32" if backend.library in ("torch", "mlx") else "float64"
    assert dtype_name(y.dtype) == default
    expected, bound = oracle.feed_forward([[1, 2, 3, 4]], *(None if a is None else a > 0 for a in W), dtype=default)
    assert_agrees(y, y, expected, bound)


def test_a_constant_of_a_callable_changes_no_dtype():
    x, weights = X.astype("float32"), W.to(dtype="float32")
    assert feed_forward(x, *weights, activation=lambda h: h * np.float64(2.0)).dtype == np.float32


@pytest.mark.parametrize("activation", [*sorted(ACTIVATIONS), ClippedGate(7.0, 1.702, 1.0)], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_numpy_half_precision_is_the_float32_result_rounded_once(activation, dtype):
    weights = W if isinstance(activation, str) else G
    x, low = Weights(X, None, None, None).to(dtype=dtype).W1, weights.to(dtype=dtype)
    y = feed_forward(x, *low, activation=activation)
    wide = feed_forward(x.astype("float32"), *low.to(dtype="float32"), activation=activation)
    assert y.dtype.name == dtype
    assert np.array_equal(y.astype("float64"), wide.astype(y.dtype).astype("float64"))


# --- values that are no numbers ------------------------------------------------------------------------------------


@every_activation
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # Dask computes when it is asked, outside our call
def test_one_position_touches_no_other(backend, value, activation):
    x = np.random.default_rng(0).standard_normal((5, 4))
    x[2, 1] = value
    moved = put(backend, (x, *W))
    y = backend.take(feed_forward(*moved, activation=activation))
    with np.errstate(all="ignore"):
        expected, bound = oracle.feed_forward(x, *W, activation=activation)
    assert np.isfinite(np.delete(y, 2, axis=0)).all()
    if np.isnan(value):
        assert np.isnan(y[2]).all()
    assert_agrees(backend.put(y), moved[0], expected, bound)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_no_floating_point_warning_leaves(dtype, activation):
    ends = np.asarray([-np.inf, -1e4, -710, -104, -89, 0, 89, 1e4, np.inf, np.nan], dtype=dtype)[:, None]
    one = np.ones((1, 1), dtype=dtype)
    with np.errstate(all="raise"):
        y = feed_forward(ends, one, None, one, None, activation=activation)
        gated = feed_forward(ends, one, None, one, None, one, activation=activation)
    beyond = activation == "relu2" and dtype == "float16"  # 1e4 squared
    assert np.isfinite(y[1 : 7 if beyond else 8]).all()
    assert gated.shape == (10, 1)


def test_overflow_of_half_precision_is_infinite_and_quiet():
    x, W1, W2 = np.ones((1, 4)), 256 * np.eye(4), np.full((4, 4), 256.0)
    with np.errstate(all="raise"):
        assert np.isposinf(
            feed_forward(*(a.astype("float16") for a in (x, W1)), None, W2.astype("float16"), None)
        ).all()
        wide = feed_forward(*(a.astype("float16") for a in (x, W1)), None, W2.astype("float32"), None)
        assert np.all(wide == 262144)
        gate = np.full((1, 1), 300, dtype="float16")
        one = np.ones((1, 1), dtype="float16")
        assert np.isposinf(hidden(one, gate, None, gate, activation="identity"))
        y = feed_forward(one, gate, None, np.full((1, 1), 0.01, "float16"), None, gate, activation="identity")
    expected, bound = oracle.feed_forward(
        one, gate, None, np.full((1, 1), 0.01, "float16"), None, gate, activation="identity"
    )
    assert_agrees(y, one, expected, bound)


# --- activations ---------------------------------------------------------------------------------------------------


def test_unknown_names_and_things():
    with pytest.raises(
        ValueError, match=r"activation must be one of relu, .*, got 'gelu_tan'; did you mean 'gelu_tanh'\?"
    ):
        feed_forward(X, *W, activation="gelu_tan")
    with pytest.raises(TypeError, match=r"activation must be a name, a gate .* or a callable on one array, got int"):
        feed_forward(X, *W, activation=3)
    with pytest.raises(ValueError, match=r"got the gate portable_ffn.ClippedGate; pass V"):
        feed_forward(X, *W, activation=ClippedGate(7.0))
    with pytest.raises(TypeError, match="activation must return an array of the library of its argument, got float"):
        feed_forward(X, *W, activation=lambda h: 1.0)
    with pytest.raises(ValueError, match=r"activation must keep the shape of its argument, \(3, 8\), got \(3, 1\)"):
        feed_forward(X, *W, activation=lambda h: h[:, :1])


@every_backend
def test_a_callable_on_every_library(backend):
    moved = put(backend, (X, *W))
    y = feed_forward(*moved, activation=lambda h: h * h)
    assert_agrees(y, moved[0], *oracle.feed_forward(X, *W, activation=lambda h: h * h))


@every_backend
def test_a_gate_object_on_every_library(backend):
    class Difference:
        def gate(self, g, u):
            return g * u - u

    moved = put(backend, (X, *G))
    y = feed_forward(*moved, activation=Difference())
    assert_agrees(y, moved[0], *oracle.feed_forward(X, *G, activation=Difference()))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"limit": -1.0}, "limit must be zero or more"),
        ({"limit": float("nan")}, "limit must be zero or more"),
        ({"limit": 7.0, "alpha": float("inf")}, "alpha and offset must be finite"),
        ({"limit": 7.0, "clip": "between"}, 'clip must be "before" or "after"'),
    ],
)
def test_clamps_that_cannot_be(arguments, match):
    with pytest.raises(ValueError, match=match):
        ClippedGate(**arguments)


@pytest.mark.parametrize("value", ["7", True, b"7", [7.0]], ids=str)
def test_a_number_is_a_number(value):
    for call in (
        lambda: ClippedGate(value),
        lambda: ClippedGate(7.0, alpha=value),
        lambda: layer_norm(X, None, eps=value),
        lambda: rms_norm(X, None, offset=value),
    ):
        with pytest.raises(TypeError, match="must be a number, got"):
            call()


def test_new_weights_that_cannot_be():
    for arguments, match in (
        ({"dtype": "int32"}, "dtype must be one of bfloat16, float16, float32, float64, got int32"),
        ({"dtype": np.complex64}, "got complex64"),
        ({"like": "torch"}, "like must be an array"),
        ({"seed": 1.5}, "seed must be an integer"),
    ):
        with pytest.raises(TypeError, match=match):
            init_weights(4, **arguments)
    with pytest.raises(ValueError, match="seed must be zero or more, got -1"):
        init_weights(4, seed=-1)


def test_an_activation_in_capitals_is_guessed():
    with pytest.raises(ValueError, match="did you mean 'gelu'"):
        feed_forward(X, *W, activation="GELU")


def test_clamps_to_the_digit():
    gate = ClippedGate(7.0)
    g, u = np.asarray([-9.0, 10.0]), np.asarray([-9.0, 1.0])
    sigmoid = 1 / (1 + np.exp(9.0))
    assert gate.gate(g, u)[0] == pytest.approx(-9.0 * sigmoid * -7.0, rel=1e-14)
    assert gate.gate(g, u)[1] == pytest.approx(6.9936, abs=5e-5)
    assert ClippedGate(7.0, clip="after").gate(g, u)[1] == 7.0
    assert ClippedGate(0.0).gate(g, u).tolist() == [0.0, 0.0]
    assert ClippedGate(None).gate(g, u)[1] == pytest.approx(10 / (1 + np.exp(-10.0)), rel=1e-14)
    assert ClippedGate(None, 1.702).gate(g, u)[1] != ClippedGate(None, 1.0).gate(g, u)[1]
    assert ClippedGate(7.0, 1.0, 1.0).gate(g, u)[1] == pytest.approx(2 * 6.9936, abs=1e-4)
    assert hash(ClippedGate(np.float32(7))) == hash(ClippedGate(7.0))
    assert type(ClippedGate(np.asarray(7.0)).limit) is float


# --- devices -------------------------------------------------------------------------------------------------------


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


# --- objects -------------------------------------------------------------------------------------------------------


def test_copies_and_pickles():
    for value in (W, G, ClippedGate(7.0), *ACTIVATIONS.values()):
        for other in (copy.deepcopy(value), copy.copy(value), pickle.loads(pickle.dumps(value))):
            assert type(other) is type(value)
    assert np.array_equal(pickle.loads(pickle.dumps(W)).W1, W.W1)


def test_threads_do_not_meet():
    jobs = [
        (np.random.default_rng(i).standard_normal((17 + i, 4)), activation)
        for i, activation in enumerate(sorted(ACTIVATIONS))
    ]
    alone = [feed_forward(x, *W, activation=activation) for x, activation in jobs]
    wrong = []

    def work():
        for _ in range(5):
            for (x, activation), y in zip(jobs, alone, strict=True):
                if not np.array_equal(feed_forward(x, *W, activation=activation), y):
                    wrong.append(activation)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_rows_alone_and_in_a_batch():
    rng = np.random.default_rng(0)
    x, weights = rng.standard_normal((64, 1000)), init_weights(1000, 64)
    for dtype in ("float32", "float64"):
        low, w = x.astype(dtype), weights.to(dtype=dtype)
        y, bound = oracle.feed_forward(low, *w)
        assert_agrees(feed_forward(low, *w), low, y, bound)
        assert_agrees(feed_forward(low[5], *w), low, y[5], bound[5])


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        feed_forward(X, *G, activation="gelu_tanh")
