"""The plugin of pytest: a fixture, a marker, and a warning of what is not checked."""

import os
import subprocess
import sys
import textwrap

import pytest

from portable_ffn.testing._inputs.cases import CASES

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
    once = sum(case.once for case in CASES)
    assert f"2 failed, {2 * len(CASES) - once} passed, 1 xfailed" in ran.stdout, ran.stdout + ran.stderr
    assert "test_mine[numpy-cpu-float32-three_leading_axes]" in ran.stdout
    assert "XFAIL test_suite.py::test_narrow[jax:x64-off-cpu:0-float64-curve] - float64 served as float32" in ran.stdout


def test_the_plugin_costs_nothing_where_nobody_asks(tmp_path):
    (tmp_path / "test_suite.py").write_text("import sys\ndef test_it(): assert 'numpy' not in sys.modules\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "portable_ffn.testing.plugin", "-p", "no:cacheprovider"]
    # Without the plugins of other packages, some of which import NumPy.
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
