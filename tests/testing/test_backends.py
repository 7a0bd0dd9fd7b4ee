"""The table of backends: what a row puts and takes, and that the settings of libraries are as before."""

import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
import pytest

from portable_ffn import feed_forward
from portable_ffn.testing import BACKENDS, check
from portable_ffn.testing._backends.arrays import held

FOUND = [pytest.param(row, id=row.name) for row in BACKENDS.values() if row.missing() is None and not row.valueless]
RANDOM = np.random.default_rng(0)


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
        assert {precision for precision, _ in inside} == {"highest"}
        x64 = [on for _, on in inside]
        assert set(x64) == {True, False}
        assert x64 == sorted(x64, reverse=True)  # on for the rows of jax, off for those of jax:x64-off
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


def test_rows_of_pytorch_are_plain_tensors():
    import torch

    seen = []
    check(lambda *a: seen.extend(a) or feed_forward(*a), backends="torch", dtypes="float32", cases="curve")
    assert {type(a) for a in seen} == {torch.Tensor}
    assert not any(a.requires_grad for a in seen)
