"""Which backends, devices and dtypes are meant, and what is asked for and not there."""

import pytest

from portable_ffn import ClippedGate, feed_forward
from portable_ffn.testing import BACKENDS, Report, check
from portable_ffn.testing._backends.select import select


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
