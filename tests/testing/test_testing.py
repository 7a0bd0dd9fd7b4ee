"""The check itself: what it refuses, what it lets pass, and that it leaves the world as it was."""

import json
import os
import re
import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
import pytest

from portable_ffn import ClippedGate, feed_forward, init_weights, oracle
from portable_ffn.testing import BACKENDS, Report, Row, assert_agrees, check, compare
from portable_ffn.testing._backends.arrays import held
from portable_ffn.testing._backends.gaps import GAPS
from portable_ffn.testing._backends.select import select
from portable_ffn.testing._inputs.cases import CASES
from portable_ffn.testing._inputs.signature import arrays_taken

FOUND = [pytest.param(row, id=row.name) for row in BACKENDS.values() if row.missing() is None and not row.valueless]
RANDOM = np.random.default_rng(0)


def network(x, W1, b1, W2, b2):
    """The paper's, in plain NumPy."""
    return np.maximum(x @ W1 + b1, 0) @ W2 + b2


def silu(h):
    return h / (1 + np.exp(-np.abs(h))) * np.where(h < 0, np.exp(-np.abs(h)), 1)


def swiglu(x, W1, b1, W2, b2, V, c):
    """Shazeer's, in plain NumPy."""
    return (silu(x @ W1 + b1) * (x @ V + c)) @ W2 + b2


def numpy_only(fn, **options):
    """A check in NumPy's two wide dtypes."""
    return check(fn, backends="numpy", dtypes=("float64", "float32"), **options)


# The table of backends


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_what_a_dtype_holds(dtype):
    """Rounded once, to nearest even, as the dtype itself rounds."""
    exponents = np.ldexp(1.0, np.arange(-140, 128))
    values = np.concatenate(
        [RANDOM.standard_normal(2000), exponents, 1.5 * exponents, 1.00390625 * exponents, [0.0, -0.0]]
    )
    values = np.concatenate([values, -values, [np.nan, np.inf, -np.inf, 3.39e38, 65519.0, 65520.0]])
    with np.errstate(over="ignore"):
        if dtype == "bfloat16":
            # By way of float32 only what float32 holds, so that nothing is rounded twice.
            values = values.astype(np.float32).astype(np.float64)
            expected = values.astype(np.float32).astype(ml_dtypes.bfloat16)
        else:
            expected = values.astype(dtype)
    np.testing.assert_array_equal(held(values, dtype), expected.astype(np.float64))


@pytest.mark.parametrize("backend", FOUND)
def test_into_a_library_and_back(backend):
    for device in backend.devices():
        for dtype in backend.held_dtypes():
            values = held(RANDOM.standard_normal((3, 5)), dtype)
            with backend.inside():
                array = backend.put(values, dtype, device)
                assert backend.device_of(array) == device
                np.testing.assert_array_equal(
                    backend.take(array), held(values, "float32") if narrowed(backend) else values
                )


def narrowed(backend):
    """Whether float64 comes out as float32."""
    return backend.name == "jax:x64-off"


def test_read_only_rows_cannot_be_written_to():
    array = BACKENDS["numpy:readonly"].put(np.ones(3))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 2.0


def test_dask_is_not_computed_before_it_is_asked():
    backend = BACKENDS["dask"]
    with backend.inside():
        array = backend.put(np.ones(3))
        with pytest.raises(RuntimeError, match="before its values were asked for"):
            float(array.sum())
        np.testing.assert_array_equal(backend.take(array), np.ones(3))


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_the_precision_of_pytorch_is_as_before(precision):
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        inside = []
        check(
            lambda *a: inside.append(torch.get_float32_matmul_precision()) or feed_forward(*a),
            backends="torch",
            cases="curve",
        )
        assert set(inside) == {"highest"}
        assert torch.get_float32_matmul_precision() == precision
        assert torch.backends.cuda.matmul.allow_tf32 == (precision != "highest")
    finally:
        torch.set_float32_matmul_precision(before)


def test_the_newer_precision_of_pytorch_is_as_before():
    """In a process of its own: PyTorch refuses to read the older switch once the newer one was set."""
    code = """
    import torch
    from portable_ffn import feed_forward
    from portable_ffn.testing import check
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    assert check(feed_forward, backends="torch", cases="curve").passed
    assert torch.backends.cuda.matmul.fp32_precision == "tf32", torch.backends.cuda.matmul.fp32_precision
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_the_settings_of_jax_are_as_before():
    import jax

    assert jax.config.jax_enable_x64
    with jax.default_matmul_precision("bfloat16"):
        inside = []

        def watched(*arrays):
            inside.append((jax.config.jax_default_matmul_precision, jax.config.jax_enable_x64))
            return feed_forward(*arrays)

        check(watched, backends=["jax", "jax:x64-off"], dtypes="float32", cases="curve")
        assert inside == [("highest", True)] * (len(inside) - len(jax.devices())) + [("highest", False)] * len(
            jax.devices()
        )
        assert jax.config.jax_default_matmul_precision == "bfloat16"
    assert jax.config.jax_enable_x64


def test_the_flags_of_array_api_strict_are_as_before():
    import array_api_strict

    before = array_api_strict.get_array_api_strict_flags()
    inside = []

    def watched(*arrays):
        inside.append(array_api_strict.get_array_api_strict_flags())
        return feed_forward(*arrays)

    check(watched, backends="array-api-strict", dtypes="float32", cases="curve")
    assert not inside[0]["boolean_indexing"]
    assert not inside[0]["data_dependent_shapes"]
    assert inside[0]["enabled_extensions"] == ()
    assert array_api_strict.get_array_api_strict_flags() == before


# The one comparison

X = np.zeros((2, 3))
Y = np.array([[1.0, 2.0, 3.0], [-4.0, 0.0, 1e-6]])
BOUND = 0.25 * np.ones((2, 3))


def test_the_worst_error_and_its_place():
    got = Y.copy()
    got[1, 0] += 0.125
    found = compare(got, X, Y, BOUND)
    assert (found.worst, found.place, found.fault) == (0.5, (1, 0), "")
    assert assert_agrees(got, X, Y, BOUND) == 0.5


@pytest.mark.parametrize(
    ("got", "match"),
    [
        (Y.tolist(), r"must be an array of numpy as x is, got list"),
        (None, r"must be an array of numpy as x is, got None"),
        (Y.astype(np.float32), r"must have dtype float64, got float32"),
        (Y[0], r"must have shape \(2, 3\), got \(3,\)"),
        (Y[None], r"must have shape \(2, 3\), got \(1, 2, 3\)"),
        (Y + 0.3, r"must be .* within 0\.25 at \(0, 0\), got 1\.3: 1\.2 times the bound; 6 of 6 values are outside"),
        (np.where(Y == 0, np.nan, Y), r"must be 0 within 0\.25 at \(1, 1\), got nan: inf times the bound"),
        (np.where(Y == 0, np.inf, Y), r"must be 0 within 0\.25 at \(1, 1\), got inf"),
    ],
    ids=str,
)
def test_what_does_not_agree(got, match):
    with pytest.raises(AssertionError, match=match):
        assert_agrees(got, X, Y, BOUND)


def test_an_answer_of_another_library():
    import torch

    with pytest.raises(AssertionError, match=r"must be an array of numpy as x is, got torch"):
        assert_agrees(torch.from_numpy(Y), X, Y, BOUND)


def test_an_answer_on_another_device():
    backend = BACKENDS["array-api-strict"]
    x, got = backend.put(X, device="device1"), backend.put(Y, device="device2")
    with pytest.raises(AssertionError, match=r"must lie on device1, got device2"):
        assert_agrees(got, x, Y, BOUND)


@pytest.mark.parametrize(
    ("value", "expected", "bound", "agrees"),
    [
        (np.nan, np.nan, 0.0, True),
        (np.nan, np.nan, 1.0, True),
        (1.0, np.nan, 1.0, False),
        (np.inf, np.inf, 0.0, True),
        (-np.inf, np.inf, 1.0, False),
        (np.nan, np.inf, 1.0, False),
        (1e300, np.inf, 1.0, False),
        (np.nan, 1.0, np.inf, True),
        (np.inf, 1.0, np.inf, True),
        (-7.0, 1.0, np.inf, True),
        (1.0, 1.0, 0.0, True),
        (np.nextafter(1.0, 2.0), 1.0, 0.0, False),
        (-0.0, 0.0, 0.0, True),
        (1.25, 1.0, 0.25, True),
        (np.nextafter(1.25, 2.0), 1.0, 0.25, False),
    ],
)
def test_numbers_that_are_none(value, expected, bound, agrees):
    found = compare(np.array([value]), np.zeros(1), np.array([expected]), np.array([bound]))
    assert found.agrees is agrees
    assert found.worst <= 1.0 if agrees else found.worst > 1.0


def test_nothing_to_compare_agrees():
    empty = np.zeros((0, 3))
    found = compare(empty, empty, empty, empty)
    assert (found.worst, found.place, found.fault) == (0.0, None, "")


def test_the_meta_device_has_shapes_only():
    import torch

    x, got = torch.zeros(2, 3, device="meta"), torch.zeros(2, 4, device="meta")
    with pytest.raises(AssertionError, match=r"must have shape \(2, 3\), got \(2, 4\)"):
        assert_agrees(got, x, Y, BOUND, valueless=True)
    assert np.isnan(compare(x, x, Y, BOUND, valueless=True).worst)


# Faults at the sizes where they can be seen

SIZES = (8, 32)


def answer(dtype, activation="gelu", gated=False):
    """Inputs of the smallest size, and the oracle's answer."""
    weights = [None if a is None else held(a, dtype) for a in init_weights(*SIZES, gated=gated)]
    x = held(np.random.default_rng(1).standard_normal((16, SIZES[0])), dtype)
    return x, weights, *oracle.feed_forward(x, *weights, activation=activation, dtype=dtype)


def tanh_gelu(x, W1, b1, W2, b2):
    h = x @ W1 + b1
    return 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3))) @ W2 + b2


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_another_gelu_is_refused(dtype):
    x, weights, y, bound = answer(dtype)
    wrong = held(tanh_gelu(x, *weights[:4]), dtype)
    with pytest.raises(AssertionError, match="times the bound"):
        assert_agrees(wrong.astype(dtype), x.astype(dtype), y, bound)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("which", [1, 3])
def test_a_bias_that_is_off_by_a_thousandth_is_refused(dtype, which):
    x, weights, y, bound = answer(dtype)
    weights[which] = weights[which] + 1e-3
    wrong = oracle.feed_forward(x, *weights, activation="gelu")[0]
    with pytest.raises(AssertionError, match="times the bound"):
        assert_agrees(wrong.astype(dtype), x.astype(dtype), y, bound)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("fault", ["swapped branches", "permuted rows", "a NaN", "zeros"])
def test_gross_faults_are_refused_in_every_dtype(dtype, fault):
    x, weights, y, bound = answer(dtype, "silu", gated=True)
    W1, b1, W2, b2, V, c = weights
    if fault == "swapped branches":
        wrong = oracle.feed_forward(x, V, c, W2, b2, W1, b1, activation="silu")[0]
    elif fault == "permuted rows":
        wrong = y[::-1]
    elif fault == "a NaN":
        wrong = np.where(np.arange(y.size).reshape(y.shape) == 5, np.nan, y)
    else:
        wrong = 0.0 * y
    of = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    with pytest.raises(AssertionError, match="times the bound"):
        assert_agrees(wrong.astype(of), x.astype(of), y, bound)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_zeros_for_outputs_of_a_millionth_are_refused(dtype):
    x, weights, _, _ = answer(dtype)
    weights[2], weights[3] = held(1e-6 * weights[2], dtype), held(1e-6 * weights[3], dtype)
    y, bound = oracle.feed_forward(x, *weights, activation="gelu", dtype=dtype)
    with pytest.raises(AssertionError, match="times the bound"):
        assert_agrees(np.zeros_like(y, dtype=dtype), x.astype(dtype), y, bound)


# The check


def test_networks_of_plain_numpy_pass():
    assert numpy_only(network).passed
    assert numpy_only(swiglu, activation="silu", gated=True).passed
    assert numpy_only(lambda x, W1, W2: np.maximum(x @ W1, 0) @ W2, bias=False).passed


def test_every_dtype_of_our_own_network_passes():
    report = check(feed_forward, backends="numpy")
    assert report.passed, report
    assert {row.dtype for row in report.rows} == {"float64", "float32", "float16", "bfloat16"}
    assert {row.case for row in report.rows} == {case.name for case in CASES}


def test_a_clipped_gate():
    gate = ClippedGate(7.0, 1.702, 1.0)
    report = numpy_only(lambda *arrays: feed_forward(*arrays, activation=gate), activation=gate, gated=True)
    assert report.passed, report
    assert report.rows[0].activation == repr(gate)


def test_a_callable_is_the_activation_of_numpy():
    def cube(h):
        return h * h * h

    report = numpy_only(lambda x, W1, b1, W2, b2: cube(x @ W1 + b1) @ W2 + b2, activation=cube)
    assert report.passed, report
    assert report.rows[0].activation == "cube"


def relu_at_the_end(x, W1, b1, W2, b2):
    return np.maximum((x @ W1 + b1) @ W2 + b2, 0)


def where_for_relu(x, W1, b1, W2, b2):
    """Takes NaN for zero."""
    h = x @ W1 + b1
    return np.where(h > 0, h, 0) @ W2 + b2


def numpy_constants(x, W1, b1, W2, b2):
    """A float64 scalar where a Python float was meant."""
    return np.maximum(x @ W1 + b1, 0) @ W2 * np.float64(1.0) + b2


def in_place(x, W1, b1, W2, b2):
    x += 0.0 * x
    b1 += 1.0
    return np.maximum(x @ W1 + b1 - 1.0, 0) @ W2 + b2


def one_axis_lost(x, W1, b1, W2, b2):
    return network(x.reshape(-1, x.shape[-1]), W1, b1, W2, b2)


def mixed_positions(x, W1, b1, W2, b2):
    return network(x - 0.1 * x.mean(axis=tuple(range(x.ndim - 1)), keepdims=True), W1, b1, W2, b2)


@pytest.mark.filterwarnings("ignore:Mean of empty slice:RuntimeWarning")
@pytest.mark.parametrize(
    ("fn", "dtype", "case", "match"),
    [
        (relu_at_the_end, "float64", "ordinary", "times the bound"),
        (where_for_relu, "float64", "a NaN", r"must be nan .* got"),
        (numpy_constants, "float32", "curve", "must have dtype float32, got float64"),
        (in_place, "float64", "ordinary", "must not be written to, but b1 changed"),
        (one_axis_lost, "float64", "three leading axes", r"must have shape \(2, 1, 3, 8\), got \(6, 8\)"),
        (one_axis_lost, "float64", "one axis", r"must have shape \(8,\), got \(1, 8\)"),
        (mixed_positions, "float64", "ordinary", "times the bound"),
        (lambda x, W1, b1, W2, b2: network(x, W1.T.T, b1, W2, b2)[..., ::-1], "float64", "square", "times the bound"),
    ],
)
def test_faults_of_other_people(fn, dtype, case, match):
    report = check(fn, backends="numpy", dtypes=dtype, cases=case)
    assert not report.passed
    assert [row.status for row in report.rows] == ["fail"]
    with pytest.raises(AssertionError, match=match):
        report.raise_if_failed()


def test_writing_to_read_only_arrays_is_an_error_in_its_own_words():
    report = check(in_place, backends="numpy", dtypes="float64", cases="read-only")
    assert [(row.status, row.message) for row in report.rows] == [
        ("error", "ValueError: output array is read-only"),
    ]


def test_an_error_is_told_in_its_own_words():
    def broken(x, W1, b1, W2, b2):
        raise KeyError("my own mistake")

    report = check(broken, backends="numpy", dtypes="float64", cases="curve")
    (row,) = report.rows
    assert (row.status, row.message) == ("error", "KeyError: 'my own mistake'")
    assert "Traceback" not in str(report)


def none_at_all(x, W1, W2):
    return np.maximum(x @ W1, 0) @ W2


def only_b1(x, W1, b1, W2):
    return np.maximum(x @ W1 + b1, 0) @ W2


def no_c(x, W1, b1, W2, b2, V):
    return np.maximum(x @ W1 + b1, 0) * (x @ V) @ W2 + b2


def no_biases_gated(x, W1, W2, V):
    return np.maximum(x @ W1, 0) * (x @ V) @ W2


@pytest.mark.parametrize(
    ("fn", "gated", "note"),
    [
        (none_at_all, False, "none_at_all takes no b1, b2: checked without biases; say bias=False (--no-bias) "),
        (only_b1, False, "only_b1 takes no b2: checked without b2"),
        (no_c, True, "no_c takes no c: checked without c"),
        (no_biases_gated, True, "no_biases_gated takes no b1, b2, c: checked without biases"),
    ],
)
def test_arrays_that_a_network_does_not_take_are_noted(fn, gated, note, tmp_path):
    """A forgotten bias passes, since a network may have none; the report says what that leaves open."""
    report = check(fn, gated=gated, backends="numpy", dtypes="float64")
    assert report.passed
    (told,) = report.notes
    assert told.startswith(note)
    assert f"\nnote: {told}\n" in str(report)
    assert json.loads(report.to_json())["notes"] == [told]
    report.to_html(tmp_path / "page.html")
    assert note in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_what_is_meant_to_have_no_biases_is_not_noted():
    options = {"backends": "numpy", "dtypes": "float64", "cases": "curve"}
    assert check(none_at_all, bias=False, **options).notes == ()
    assert check(feed_forward, **options).notes == ()
    assert check(feed_forward, gated=True, **options).notes == ()
    assert "note:" not in str(check(none_at_all, bias=False, **options))


@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
def test_an_error_over_a_bias_of_none_says_why_it_is_none(backend, require):
    require(backend)

    def needs_biases(x, W1, b1, W2, b2):
        return (x @ W1 + b1) @ W2 + b2

    report = check(needs_biases, bias=False, activation="identity", backends=backend, dtypes="float32", cases="curve")
    (row,) = [row for row in report.rows if row.device in ("cpu", "cpu:0")]
    assert row.status == "error"
    assert row.message.endswith("(it was given None for b1, b2, since bias=False (--no-bias))")


def test_an_error_over_a_branch_of_none_says_why_it_is_none():
    report = check(swiglu, activation="silu", backends="numpy", dtypes="float64", cases="curve")
    assert "(it was given None for V, c, since gated=False; say gated=True (--gated) to have them)" in str(report)


def test_an_error_over_something_else_is_told_alone():
    def mistaken(x, W1, b1, W2, b2):
        raise ValueError("another mistake")

    report = check(mistaken, bias=False, backends="numpy", dtypes="float64", cases="curve")
    assert report.rows[0].message == "ValueError: another mistake"


def test_failures_and_errors_of_a_place_are_both_told():
    def both(x, W1, b1, W2, b2):
        if x.ndim == 1:
            raise ValueError("one axis")
        return 0 * network(x, W1, b1, W2, b2)

    report = check(both, backends="numpy", dtypes="float64", cases=["ordinary", "curve", "one axis"])
    assert report.summary()[0][-1] == "fail (2 of 3), error (1 of 3)"


def test_where_nothing_explains_a_difference_it_was_tried():
    def strange(x, W1, b1, W2, b2):
        return network(x, W1, b1, W2, b2) + np.sin(np.arange(x.size)).reshape(x.shape)

    report = check(strange, backends="numpy", dtypes="float64", cases=["ordinary", "curve"])
    for row in report.rows:
        assert row.cause == ""
        assert re.search(r"; \d\d known faults of the formula were tried, and those of the arithmetic, and none ",
                         row.message)  # fmt: skip
    shape = check(one_axis_lost, backends="numpy", dtypes="float64", cases="one axis").rows[0].message
    assert "tried" not in shape


def test_one_fault_is_told_once():
    def without_b1(x, W1, b1, W2, b2):
        return network(x, W1, 0 * b1, W2, b2)

    report = check(without_b1, backends="numpy", dtypes=["float64", "float32"])
    assert len(report.failures()) > 20
    assert str(report).count("because: b1 missing") == 1
    assert str(report).count("the answer must be") <= 3
    others = re.search(r"as in (\d+) rows more: numpy cpu float64, numpy cpu float32; in .* and \d+ more", str(report))
    assert others
    assert int(others[1]) > 15


def test_float64_served_as_float32_is_no_silent_pass():
    report = check(feed_forward, backends="jax:x64-off", dtypes=["float64", "float32"], cases="curve")
    statuses = {row.dtype: row.status for row in report.rows}
    assert statuses == {"float64": "gap", "float32": "pass"}
    assert "float64 served as float32" in str(report)
    alone = check(feed_forward, backends="jax:x64-off", dtypes="float64", cases="curve")
    assert not alone.passed
    assert str(alone).endswith("known gap of its library, so that nothing was checked as asked")


def test_a_library_that_holds_no_float64_has_a_remedy():
    """In a process of its own, where JAX is as it comes."""
    code = """
    from portable_ffn import feed_forward
    from portable_ffn.testing import check
    report = check(feed_forward, backends="jax", dtypes="float64", cases="curve")
    assert {row.status for row in report.rows} == {"gap"}
    assert all(row.message.endswith("; set JAX_ENABLE_X64=1 in the environment for float64") for row in report.rows)
    """
    environment = {name: value for name, value in os.environ.items() if name != "JAX_ENABLE_X64"}
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, env=environment)


def numpy_in_bfloat16():
    """NumPy multiplies matrices of ml_dtypes.bfloat16 into float32."""
    return network, {}, "numpy", "bfloat16"


def mlx_in_float64():
    """MLX evaluates a sigmoid in float64 to float32."""
    import mlx.core as mx

    def mlx_swiglu(x, W1, b1, W2, b2, V, c):
        h = x @ W1 + b1
        return (h * mx.sigmoid(h) * (x @ V + c)) @ W2 + b2

    return mlx_swiglu, {"activation": "silu", "gated": True}, "mlx", "float64"


@pytest.mark.parametrize("limit", [numpy_in_bfloat16, mlx_in_float64])
def test_a_limit_of_a_library_is_a_gap_and_hides_no_fault(limit):
    fn, options, backend, dtype = limit()
    report = check(fn, backends=backend, dtypes=dtype, cases="ordinary", **options)
    assert [row.status for row in report.rows] == ["gap"]
    (known,) = [gap for gap in GAPS if backend in gap.libraries]
    assert report.rows[0].message == known.reason

    def without_b1(x, W1, b1, *others):
        return fn(x, W1, 0 * b1, *others)

    report = check(without_b1, backends=backend, dtypes=dtype, cases="ordinary", **options)
    assert [row.status for row in report.rows] == ["fail"]


def test_every_limit_of_a_library_is_shown():
    assert {library for gap in GAPS for library in gap.libraries} == {"numpy", "mlx"}


def test_a_network_that_computes_float64_in_float32_fails():
    import torch

    def narrow(x, W1, b1, W2, b2):
        return feed_forward(*(a.to(torch.float32) for a in (x, W1, b1, W2, b2))).to(x.dtype)

    report = check(narrow, backends="torch", dtypes=["float64", "float32"], cases="ordinary")
    assert {row.dtype: row.status for row in report.rows} == {"float64": "fail", "float32": "pass"}


def test_a_network_that_leaves_its_library_fails():
    def through_numpy(*arrays):
        return feed_forward(*(a.numpy() for a in arrays))

    report = check(through_numpy, backends="torch", dtypes="float32", cases="ordinary")
    with pytest.raises(AssertionError, match="must be an array of torch as x is, got numpy"):
        report.raise_if_failed()


def test_what_is_asked_for_and_missing_does_not_pass():
    absent = next(name for name, row in BACKENDS.items() if row.missing() is not None)
    report = check(feed_forward, backends=["numpy", absent], dtypes="float64", cases="curve")
    assert not report.passed
    assert [row.status for row in report.rows] == ["error", "pass"]
    assert "was asked for, but" in report.rows[0].message


def test_no_row_is_not_passed():
    report = Report(())
    assert not report.passed
    assert not check(feed_forward, backends=[]).passed
    with pytest.raises(AssertionError, match="not passed: no row was run"):
        report.raise_if_failed()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"backends": "nunpy"}, "backend must be one of numpy, .* got 'nunpy'"),
        ({"dtypes": "float8"}, "dtypes must be of .* got float8"),
        ({"cases": "curves"}, "cases must be of curve, .*; got curves"),
        ({"activation": "gleu"}, "activation must be one of .* got 'gleu'"),
        ({"activation": ClippedGate(7.0)}, "a gate object needs the linear branch V"),
    ],
)
def test_names_that_are_not_known(options, match):
    with pytest.raises(ValueError, match=match):
        check(feed_forward, **options)


def test_dtypes_may_be_a_librarys_own():
    import torch

    report = check(feed_forward, backends="torch", dtypes=torch.bfloat16, cases="curve")
    assert [row.dtype for row in report.rows] == ["bfloat16"]


def test_equal_seeds_give_equal_rows():
    one, same, other = (numpy_only(network, cases="ordinary", seed=seed).rows for seed in (3, 3, 4))
    assert one == same
    assert one != other


def test_sizes_are_those_that_were_asked_for():
    seen = set()

    def watched(x, W1, b1, W2, b2):
        seen.add((x.shape[-1], *W1.shape))
        return network(x, W1, b1, W2, b2)

    numpy_only(watched, d_model=5, d_ff=9, cases="ordinary")
    assert seen == {(5, 5, 9)}


# Which arrays a network takes


def five(x, W1, b1, W2, b2): ...
def seven(x, W1, b1, W2, b2, V, c): ...
def either(x, W1, b1, W2, b2, V=None, c=None): ...
def other_names(tokens, up, up_bias, down, down_bias): ...
def other_order(W1, b1, W2, b2, x): ...
def without_biases(x, W1, W2): ...
def gated_without_biases(x, W1, W2, V): ...
def without_c(x, W1, b1, W2, b2, V): ...
def four_of_other_names(tokens, gate, down, up): ...
def with_options(x, W1, b1, W2, b2, eps=1e-5): ...
def any_arrays(*arrays): ...


ALL = ("x", "W1", "b1", "W2", "b2", "V", "c")


@pytest.mark.parametrize(
    ("fn", "gated", "bias", "taken"),
    [
        (five, False, True, ALL[:5]),
        (five, False, False, ALL[:5]),
        (seven, True, True, ALL),
        (seven, False, True, ALL),
        (either, False, True, ALL[:5]),
        (either, True, True, ALL),
        (either, True, False, ALL[:6]),
        (other_names, False, True, ALL[:5]),
        (other_order, False, True, ("W1", "b1", "W2", "b2", "x")),
        (without_biases, False, True, ("x", "W1", "W2")),
        (without_biases, False, False, ("x", "W1", "W2")),
        (gated_without_biases, True, False, ("x", "W1", "W2", "V")),
        (without_c, True, True, ALL[:6]),
        (four_of_other_names, True, False, ("x", "W1", "W2", "V")),
        (with_options, False, True, ALL[:5]),
        (any_arrays, False, True, ALL[:5]),
        (any_arrays, True, True, ALL),
        (feed_forward, False, True, ALL[:5]),
        (max, False, True, ALL[:5]),
    ],
)
def test_a_network_is_called_with_what_it_takes(fn, gated, bias, taken):
    assert arrays_taken(fn, gated, bias) == taken


@pytest.mark.parametrize(
    ("fn", "gated"), [(five, True), (lambda x: x, False), (lambda a, b, c, d, e, f, g, h: a, True)]
)
def test_a_network_that_takes_something_else(fn, gated):
    with pytest.raises(TypeError, match=r"fn must take x, W1, b1, W2, b2.* got the parameters \("):
        check(fn, gated=gated)


def test_a_module_is_refused_at_once_with_what_to_do():
    import torch
    from flax import nnx

    modules = torch.nn.Sequential(torch.nn.Linear(8, 32)), torch.nn.Linear(8, 8), nnx.Linear(8, 8, rngs=nnx.Rngs(0))
    for module in modules:
        with pytest.raises(TypeError, match=r"goes into a function\(x, W1, b1, W2, b2\) that puts those into it and"):
            check(module, backends="torch")
    with pytest.raises(TypeError, match=r"fn must be a network to call .* got the class Linear"):
        check(torch.nn.Linear, backends="torch")


def test_a_module_that_takes_the_arrays_is_called_with_them():
    import torch

    class Network(torch.nn.Module):
        def forward(self, x, W1, b1, W2, b2):
            return torch.relu(x @ W1 + b1) @ W2 + b2

    assert check(Network(), backends="torch", dtypes="float32", cases=["curve", "ordinary"]).passed


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"d_model": 0}, ValueError, "d_model must be 1 or more, got 0"),
        ({"d_model": -3}, ValueError, "d_model must be 1 or more, got -3"),
        ({"d_ff": -1}, ValueError, "d_ff must be 0 or more, got -1"),
        ({"d_ff": 2.5}, TypeError, r"d_ff must be an integer, got 2\.5"),
        ({"d_model": True}, TypeError, "d_model must be an integer, got True"),
        ({"seed": -1}, ValueError, "seed must be 0 or more, got -1"),
        ({"seed": "1"}, TypeError, "seed must be an integer, got '1'"),
    ],
)
def test_sizes_and_seeds_are_whole_numbers(options, error, match):
    with pytest.raises(error, match=match):
        check(feed_forward, **options)


def test_an_empty_hidden_layer_is_checked():
    assert numpy_only(feed_forward, d_ff=0).passed


def test_what_is_no_network():
    with pytest.raises(TypeError, match=r"fn must be a network to call .* got str"):
        check("feed_forward")


def test_without_biases_they_are_none():
    seen = []
    check(lambda *a: seen.append(a) or feed_forward(*a), bias=False, backends="numpy", dtypes="float64", cases="curve")
    check(
        lambda *a: seen.append(a) or feed_forward(*a),
        bias=False,
        gated=True,
        backends="numpy",
        dtypes="float64",
        cases="curve",
    )
    (plain, gated) = seen
    assert [a is None for a in plain] == [False, False, True, False, True]
    assert [a is None for a in gated] == [False, False, True, False, True, False, True]


def test_rows_of_pytorch_are_plain_tensors():
    import torch

    seen = []
    check(lambda *a: seen.extend(a) or feed_forward(*a), backends="torch", dtypes="float32", cases="curve")
    assert {type(a) for a in seen} == {torch.Tensor}
    assert not any(a.requires_grad for a in seen)


# Which backends are run


def test_what_is_found_is_run_but_what_is_slow_or_ours():
    names = {place.backend.name for place in select(None, None, None).places}
    assert {"numpy", "numpy:readonly", "torch", "jax", "jax:jit"} <= names
    assert not {"numpy:generic", "torch:compile"} & names


def test_a_library_on_another_device():
    import torch

    (place,) = select("torch", "meta", "float32").places
    assert (place.backend.name, place.device, place.dtypes) == ("torch:meta", "meta", ("float32",))
    asked = select("torch", "cuda", None)
    if torch.cuda.is_available():
        assert {place.backend.name for place in asked.places} == {"torch:cuda"}
    else:
        assert not asked.places
        assert "PyTorch finds no CUDA device" in asked.missing["device cuda"]


def test_one_of_several_devices():
    places = select("array-api-strict", "device2", None).places
    assert [place.device for place in places] == ["device2"]
    every = select("jax", "cpu", "float32").places
    assert [place.device for place in every] == ["cpu:0", "cpu:1"]
    assert "the devices found are CPU_DEVICE" in select("array-api-strict", "tpu", None).missing["device tpu"]


def test_a_dtype_that_a_backend_has_not():
    selection = select("array-api-strict", None, "bfloat16")
    assert not selection.places
    assert selection.missing == {"array-api-strict": "array-api-strict has float64, float32, got bfloat16"}


# The report


def row(status="pass", worst=0.25, **changes):
    given = {
        "backend": "numpy",
        "device": "cpu",
        "dtype": "float64",
        "activation": "relu",
        "gated": False,
        "bias": True,
        "case": "curve",
        "status": status,
        "worst": worst,
    }
    return Row(**{**given, **changes})


def test_a_report_in_words():
    report = Report((row(), row(worst=0.5), row("fail", 3.0, dtype="float32", message="too far", cause="b1 missing")))
    text = str(report)
    assert "numpy    cpu     float64  0.5          pass\n" in text
    assert "numpy    cpu     float32  3            fail (1 of 1)\n" in text
    assert "numpy cpu float32, relu, curve: too far\n  because: b1 missing\n" in text
    assert text.endswith("not passed: 2 pass, 1 fail")


def test_many_failures_are_counted_and_not_listed():
    text = str(Report(tuple(row("fail", 3.0, case=f"case {n}", message="too far") for n in range(40))))
    assert text.count("too far") == 1
    assert (
        "\n  as in 39 rows more: numpy cpu float64; in case 1, case 2, case 3, case 4, case 5, case 6 and 33 more\n"
        in text
    )
    text = str(Report(tuple(row("fail", 3.0, message="too far", cause=f"cause {n}") for n in range(40))))
    assert text.count("because: cause") == 12
    assert "... and 28 rows more" in text


def test_rows_of_one_cause_stand_together():
    """What explains most rows is told first, with the causes that all of them share."""
    causes = ("b2 missing", "b1 missing; or scaled", "b1 missing", "scaled; or b1 missing", "")
    rows = [row("fail", 3.0, case=f"case {n}", message=f"wrong {n}", cause=cause) for n, cause in enumerate(causes)]
    raised = [row("error", np.nan, case=f"case {n}", message=f"ValueError: of {n} numbers") for n in (7, 8)]
    lines = str(Report((*rows, *raised))).splitlines()[2:-1]
    assert lines == [
        "numpy cpu float64, relu, case 1: wrong 1",
        "  because: b1 missing",
        "  as in 2 rows more: numpy cpu float64; in case 2, case 3",
        "numpy cpu float64, relu, case 7: ValueError: of 7 numbers",
        "  as in 1 row more: numpy cpu float64; in case 8",
        "numpy cpu float64, relu, case 0: wrong 0",
        "  because: b2 missing",
        "numpy cpu float64, relu, case 4: wrong 4",
    ]


@pytest.mark.parametrize(
    ("statuses", "passed"),
    [
        (["pass"], True),
        (["pass", "gap"], True),
        (["gap"], False),
        (["pass", "fail"], False),
        (["pass", "error"], False),
        ([], False),
    ],
)
def test_when_a_report_has_passed(statuses, passed):
    assert Report(tuple(row(status) for status in statuses)).passed is passed


def test_a_report_as_json():
    report = Report((row(), row("fail", np.inf), row("error", np.nan, message="é")), {"numpy": "2"}, {"cupy": "no"})
    document = json.loads(report.to_json(), parse_constant=pytest.fail)
    assert document["passed"] is False
    assert [entry["worst"] for entry in document["rows"]] == [0.25, "inf", None]
    assert document["rows"][0]["gated"] is False
    assert (document["versions"], document["absent"]) == ({"numpy": "2"}, {"cupy": "no"})


def test_a_report_as_a_page(tmp_path):
    report = Report((row("fail", 3.0, message="1 < 2 & <b>", case="curve"),))
    report.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "1 &lt; 2 &amp; &lt;b&gt;" in page
    assert page.lower().startswith("<!doctype html>")


def test_a_page_in_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"the folder .*none doesn't exist; make it first"):
        Report((row(),)).to_html(tmp_path / "none" / "page.html")


def test_progress_sees_each_row():
    seen = []
    report = numpy_only(network, progress=seen.append)
    assert tuple(seen) == report.rows


# The plugin

SUITE = """
    import numpy as np, pytest

    def network(x, W1, b1, W2, b2):
        return np.maximum(x @ W1 + b1, 0) @ W2 + b2

    @pytest.mark.feed_forward(backends="numpy", dtypes=["float64", "float32"])
    def test_mine(check_feed_forward):
        check_feed_forward(network)

    @pytest.mark.feed_forward(backends="numpy", dtypes="float64", cases=["ordinary", "curve"])
    def test_wrong(check_feed_forward):
        check_feed_forward(network, activation="gelu")

    @pytest.mark.feed_forward(backends="jax:x64-off", dtypes="float64", cases="curve")
    def test_narrow(check_feed_forward):
        from portable_ffn import feed_forward
        check_feed_forward(feed_forward)
    """

FORGOTTEN = """
    import numpy as np, pytest

    @pytest.mark.feed_forward(backends="numpy", dtypes="float64", cases="curve")
    @pytest.mark.parametrize("bias", [True, False])
    def test_forgotten(check_feed_forward, bias):
        check_feed_forward(lambda x, W1, W2: np.maximum(x @ W1, 0) @ W2, bias=bias)
    """


def test_a_suite_is_warned_of_what_is_not_checked(tmp_path):
    (tmp_path / "test_suite.py").write_text(textwrap.dedent(FORGOTTEN))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 passed, 1 warning" in ran.stdout, ran.stdout + ran.stderr
    assert "UserWarning: <lambda> takes no b1, b2: checked without biases" in ran.stdout


@pytest.mark.parametrize("asked", [[], ["-p", "portable_ffn.testing.plugin"]], ids=["by its fixture", "by -p"])
def test_one_line_in_a_suite_is_a_test_for_each_row(tmp_path, asked):
    (tmp_path / "test_suite.py").write_text(textwrap.dedent(SUITE))
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "--strict-markers", "-W", "error", "-p", "no:cacheprovider"]
    ran = subprocess.run([*command, *asked], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"2 failed, {2 * len(CASES)} passed, 1 xfailed" in ran.stdout, ran.stdout + ran.stderr
    assert "test_mine[numpy-cpu-float32-three_leading_axes]" in ran.stdout
    assert "XFAIL test_suite.py::test_narrow[jax:x64-off-cpu:0-float64-curve] - float64 served as float32" in ran.stdout


def test_the_plugin_costs_nothing_where_nobody_asks(tmp_path):
    (tmp_path / "test_suite.py").write_text("import sys\ndef test_it(): assert 'numpy' not in sys.modules\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "portable_ffn.testing.plugin", "-p", "no:cacheprovider"]
    # Without the plugins of other packages, some of which import NumPy.
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
