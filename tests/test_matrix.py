"""The network and its hidden layer on every backend, device, dtype, activation, form and shape, against the oracle.

One body: each row of the matrix goes through the same comparison. The rows are literal tables below.
"""

import json
import os
import subprocess
import sys
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from portable_ffn import ACTIVATIONS, ClippedGate, feed_forward, hidden, oracle
from portable_ffn._activations.named import activation_name
from portable_ffn.testing import BACKENDS, assert_agrees
from portable_ffn.testing._inputs.cases import CASES
from portable_ffn.testing._plan import Plan

EVERY_CASE = tuple(case.name for case in CASES)
BOTH_ENDS = ("curve", "tails")
# The cases that are about numbers; the others are about shapes and memory, which know no dtype.
NUMBERS = (*BOTH_ENDS, "ordinary", "biases alone", "large", "small", "near overflow", "a NaN", "an infinity")


class Network(NamedTuple):
    """What is computed, and on which cases."""

    activation: Any
    gated: bool
    bias: bool
    cases: tuple[str, ...]

    def __str__(self) -> str:
        return f"{activation_name(self.activation)}{'-gated' * self.gated}{'-bias' * self.bias}"


PAPER = Network("relu", False, True, EVERY_CASE)  # Vaswani et al. 2017
SWIGLU = Network("silu", True, False, EVERY_CASE)  # Shazeer 2020, without biases as in LLaMA
PLAIN = tuple(Network(name, False, True, BOTH_ENDS) for name in ACTIVATIONS if name != "relu")
GATED = tuple(Network(name, True, True, BOTH_ENDS) for name in ACTIVATIONS)
CLIPPED = (
    Network(ClippedGate(7.0, 1.702, 1.0), True, True, ("curve", "tails", "ordinary", "a NaN", "large")),
    Network(ClippedGate(2.0, clip="after"), True, False, ("curve", "tails", "large")),
    Network(ClippedGate(0.5, 1.0, 0.0), True, True, ("curve", "near overflow", "an infinity")),
    Network(ClippedGate(None, 1.702, 1.0), True, True, ("curve", "ordinary")),
)
BOTH = (PAPER, SWIGLU)
ALL = (*BOTH, *PLAIN, *GATED, *CLIPPED)
# Each name once, plain or gated, for backends that take long at each new formula.
EACH = (*BOTH, *PLAIN[::2], *GATED[::2], CLIPPED[0])
NUMERIC = tuple(network._replace(cases=NUMBERS) for network in BOTH)
SHAPES = tuple(network._replace(cases=tuple(c for c in EVERY_CASE if c not in NUMBERS)) for network in BOTH)
CURVES = tuple(network._replace(cases=("curve",)) for network in EACH)
ORDINARY = tuple(network._replace(cases=("ordinary",)) for network in (PAPER, SWIGLU, CLIPPED[0]))
GELU = Network("gelu", False, True, BOTH_ENDS)
SILU = Network("silu", True, True, (*BOTH_ENDS, "a NaN", "an infinity"))

FLOATS = ("float64", "float32", "float16", "bfloat16")
THREE = ("float64", "float32", "float16")
TWO = ("float64", "float32")
# backend -> networks and the dtypes they run in, on its first device; further devices see the ordinary inputs.
# Backends that compile at each new shape see shapes in one dtype.
RUNS: dict[str, tuple[tuple[tuple[Network, ...], tuple[str, ...]], ...]] = {
    "numpy": ((ALL, FLOATS),),
    "numpy:readonly": (((*BOTH, GELU), FLOATS),),
    "numpy:generic": ((ALL, FLOATS),),
    "torch": ((ALL, FLOATS),),
    "torch:generic": ((EACH, FLOATS),),
    "torch:compile": ((ORDINARY, ("float32",)),),
    "torch:meta": ((BOTH, FLOATS),),
    "torch:cuda": ((ALL, FLOATS),),
    "jax": (((*NUMERIC, *EACH[2:]), FLOATS), (SHAPES, ("float32",))),
    "jax:jit": (((*NUMERIC, GELU), FLOATS), (SHAPES, ("bfloat16",))),
    "jax:generic": ((CURVES, ("float64", "float32", "bfloat16")),),
    "jax:x64-off": (((GELU, ORDINARY[1]), FLOATS),),
    "jax:gpu": ((ALL, FLOATS),),
    "array-api-strict": ((ALL, TWO),),
    "dask": ((BOTH, FLOATS), (CURVES, ("float32",))),
    "ndonnx": (((*ORDINARY, GELU), THREE), (SHAPES[:1], ("float32",))),
    "mlx": ((ALL, FLOATS),),
    "tensorflow": ((ALL, FLOATS),),
    "tensorflow:function": (((*NUMERIC, GELU), ("float64", "float32", "bfloat16")),),
    "tensorflow:xla": ((ORDINARY, ("float32",)),),
    "paddle": ((ALL, FLOATS),),
    "paddle:static": ((ORDINARY, ("float32",)),),
    "tinygrad": (((*ORDINARY, GELU, SILU), TWO),),
    "tinygrad:jit": ((ORDINARY[:1], ("float32",)),),
    "dpnp": ((ALL, TWO),),
    "cupy": ((ALL, THREE),),
}
# Compiling for seconds at each row.
SLOW = ("torch:compile", "tensorflow:xla", "paddle:static", "tinygrad", "tinygrad:jit")


class Gap(NamedTuple):
    """A known limit of a library: the row is expected to fail for this reason, and one that passes fails."""

    backend: str
    dtype: str
    network: str
    case: str
    reason: str


GAPS: tuple[Gap, ...] = ()


class Row(NamedTuple):
    """One test: a network on a backend, for the cases that are no gaps, or for one that is."""

    backend: str
    device: int
    dtype: str
    network: Network


def found(name: str) -> bool:
    """Whether a backend can be run."""
    return BACKENDS[name].missing() is None


def rows() -> list[Any]:
    """Every row of the matrix as a parameter; a backend that is missing has one, which skips or fails."""
    listed = []
    for name, runs in RUNS.items():
        marks = [pytest.mark.slow] if name in SLOW else []
        if not found(name):
            listed.append(pytest.param(Row(name, 0, "float32", PAPER), id=name, marks=marks))
            continue
        for networks, dtypes in runs:
            listed += [p for dtype in dtypes for one in networks for p in split(Row(name, 0, dtype, one), marks)]
        for device in range(1, len(BACKENDS[name].devices())):
            listed += [p for dtype in TWO for one in ORDINARY for p in split(Row(name, device, dtype, one), marks)]
    return listed


def split(row: Row, marks: list[Any]) -> list[Any]:
    """A row without its gaps, and each of its gaps as an expected failure."""
    gaps = [gap for gap in GAPS if (gap.backend, gap.dtype, gap.network) == (row.backend, row.dtype, str(row.network))]
    gaps = [gap for gap in gaps if gap.case in row.network.cases]
    kept = tuple(case for case in row.network.cases if case not in {gap.case for gap in gaps})
    name = f"{row.backend}-{row.device}-{row.dtype}-{row.network}-{len(row.network.cases)}"
    whole = row._replace(network=row.network._replace(cases=kept))
    return [
        pytest.param(whole, id=name, marks=marks),
        *(
            pytest.param(
                row._replace(network=row.network._replace(cases=(gap.case,))),
                id=f"{name}-{gap.case}",
                marks=[*marks, pytest.mark.xfail(reason=gap.reason, strict=True, raises=AssertionError)],
            )
            for gap in gaps
        ),
    ]


@cache
def plan(activation: Any, gated: bool, bias: bool) -> Plan:
    """A network with the oracle's answers, which serve every backend."""
    return Plan(partial(feed_forward, activation=activation), activation, gated, bias, quiet=False)


@pytest.mark.parametrize("row", rows())
def test_feed_forward(row, require):
    backend = require(row.backend)
    network = row.network
    planned = plan(network.activation, network.gated, network.bias)
    device = backend.devices()[row.device]
    with backend.inside():
        wrapped = backend.wrap(planned.fn)
    narrowed = row.backend == "jax:x64-off" and row.dtype == "float64"
    faults = []
    for case in CASES:
        if case.name in network.cases:
            came = planned.row(wrapped, backend, device, row.dtype, case)
            if came.status != ("gap" if narrowed else "pass"):
                faults.append(f"{case.name}: {came.status} {came.message} {came.cause}")
    assert not faults, "\n".join(faults)


HIDDEN = [
    (name, dtype, network)
    for name in RUNS
    if name not in SLOW
    for dtype in RUNS[name][0][1]
    for network in (GELU, SWIGLU, CLIPPED[0])
]


@pytest.mark.parametrize(("name", "dtype", "network"), HIDDEN, ids=str)
def test_hidden(name, dtype, network, require):
    backend = require(name)
    planned = plan(network.activation, network.gated, network.bias)
    ordinary = next(case for case in CASES if case.name == "ordinary")
    inputs = ordinary.inputs(1, 16, 64, planned.taken, dtype)
    served = "float32" if name == "jax:x64-off" and dtype == "float64" else dtype
    W1, b1, _, _, V, c = inputs.weights
    expected = oracle.hidden(inputs.x, W1, b1, V, c, activation=network.activation, dtype=served)
    with backend.inside():
        x, *weights = (None if a is None else backend.put(a, dtype) for a in (inputs.x, W1, b1, V, c))
        got = backend.wrap(partial(hidden, activation=network.activation))(x, *weights)
        assert_agrees(got, x, *expected, dtype=served, valueless=backend.valueless)


@pytest.mark.parametrize("name", [name for name in RUNS if name not in (*SLOW, "torch:meta")])
def test_many_rows(name, require):
    """More positions than any block of rows, in no multiple of one."""
    backend = require(name)
    network = next(case for case in CASES if case.name == "ordinary")
    planned = plan("relu", False, True)
    inputs = network.inputs(2, 4, 8, planned.taken, "float32")
    x = np.resize(inputs.x, (3, 1371, 4)) * np.linspace(0.5, 1.5, 1371)[:, None]
    x = x.astype(np.float32).astype(np.float64)
    expected = oracle.feed_forward(x, *inputs.weights, dtype="float32")
    with backend.inside():
        arrays = [None if a is None else backend.put(a, "float32") for a in (x, *inputs.weights)]
        assert_agrees(backend.wrap(feed_forward)(*arrays), arrays[0], *expected, dtype="float32")


def test_every_backend_has_a_run():
    assert list(RUNS) == list(BACKENDS)


def test_every_gap_is_met():
    """A gap that no row meets is out of date."""
    for gap in GAPS:
        assert any(
            gap.dtype in dtypes and str(network) == gap.network and gap.case in network.cases
            for networks, dtypes in RUNS[gap.backend]
            for network in networks
        ), gap


def test_every_activation_is_in_the_matrix():
    plain = {network.activation for network in ALL if not network.gated}
    gated = {network.activation for network in ALL if network.gated}
    assert set(ACTIVATIONS) <= plain
    assert set(ACTIVATIONS) <= gated


def test_the_oldest_array_api_compat():
    """The lower bound in pyproject.toml, first on the path of a process of its own."""
    folder = os.environ.get("PORTABLE_FFN_OLDEST")
    if folder is None:
        pytest.skip("PORTABLE_FFN_OLDEST is not set: the oldest array-api-compat is not here")
    if not Path(folder, "array_api_compat").is_dir():
        pytest.fail(f"PORTABLE_FFN_OLDEST must hold array_api_compat, got {folder}", pytrace=False)
    names = [name for name in ("numpy:generic", "torch:generic", "jax", "jax:jit", "dask", "mlx") if found(name)]
    code = f"""
import json, array_api_compat
from functools import partial
from portable_ffn import feed_forward
from portable_ffn.testing import check
network = partial(feed_forward, activation="gelu")
cases = "curve", "ordinary", "a NaN", "no positions", "one axis"
report = check(network, activation="gelu", backends={names!r}, dtypes=["float32"], cases=cases)
print(json.dumps([array_api_compat.__file__, report.passed, str(report)]))
"""
    environment = {**os.environ, "PYTHONPATH": folder}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    where, passed, report = json.loads(ran.stdout)
    assert where.startswith(folder)
    assert passed, report
