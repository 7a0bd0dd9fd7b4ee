"""Limits of a library: shown, with a remedy where there is one, and hiding no fault."""

import os
import subprocess
import sys
import textwrap

import pytest

from portable_ffn import feed_forward
from portable_ffn.testing import check
from portable_ffn.testing._backends.gaps import GAPS
from tests.testing.networks import network


def test_float64_served_as_float32_is_no_silent_pass():
    report = check(feed_forward, backends="jax:x64-off", dtypes=["float64", "float32"], cases="curve")
    statuses = {row.dtype: row.status for row in report.rows}
    assert statuses == {"float64": "gap", "float32": "pass"}
    assert "float64 served as float32" in str(report)
    alone = check(feed_forward, backends="jax:x64-off", dtypes="float64", cases="curve")
    assert not alone.passed
    assert str(alone).splitlines()[0].endswith("known gap of its library, so that nothing was checked as asked")


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
