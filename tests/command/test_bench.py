"""The bench's command and its limits; what it measures is looked at, how long it took is not."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from portable_ffn import init_weights
from portable_ffn.__main__ import main
from portable_ffn.command._bench.contenders import CONTENDERS, half_contenders
from portable_ffn.command._bench.rounds import medians, peak_mib
from tests.conftest import demand

TINY = ["--tokens", "2", "--sizes", "4/8", "--rounds", "1"]


def ask(capsys, *arguments):
    code = main(["bench", *arguments])
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.mark.parametrize("library", CONTENDERS)
def test_json(capsys, library):
    demand(library)
    code, out, _ = ask(capsys, *TINY, "--libraries", library, "--json", "--activations", "relu", "silu")
    document = json.loads(out)
    assert code == 0
    assert document["machine"][library]
    assert [(row["activation"], row["gated"]) for row in document["rows"]] == [("relu", False), ("silu", True)]
    for row in document["rows"]:
        assert set(row["microseconds"]) == set(row["ratios"]) == {"floor", "ours", "hand"}
        assert row["ratios"]["ours"]["floor"] > 0


def test_table(capsys):
    code, out, _ = ask(capsys, *TINY, "--libraries", "numpy", "--activations", "relu", "silu", "--dtypes", "float64")
    lines = out.splitlines()
    assert code == 0
    assert lines[1].split()[-3:] == ["ours/floor", "hand/floor", "ours/hand"]
    assert [line.split()[:5] for line in lines[2:]] == [
        ["numpy", "float64", "2", "4/8", "relu"],
        ["numpy", "float64", "2", "4/8", "swiglu"],
    ]


@pytest.mark.parametrize("layout", ["in_out", "out_in"])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("activation", ["relu", "silu", "gelu_tanh", "gelu"])
@pytest.mark.parametrize("library", CONTENDERS)
def test_contenders_compute_the_same(library, activation, train, layout):
    """A ratio means something only where both sides do the same work."""
    if library == "numpy" and activation == "gelu":
        pytest.importorskip("scipy")
    from portable_ffn.command.bench import _inputs

    demand(library)
    x, weights = _inputs(library, "float64", (2, 3), 4, 8, activation == "silu", layout)
    run = CONTENDERS[library](x, weights, activation, train and library != "numpy")
    ours, hand = run.ours(), run.hand()
    if library == "torch" and train:
        return  # PyTorch leaves gradients in the leaves; tests of training compare them
    pairs = zip(ours, hand, strict=True) if isinstance(ours, tuple) else [(ours, hand)]
    for a, b in pairs:
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6, atol=1e-9)
    floor = run.floor()[0]
    np.testing.assert_allclose(np.asarray(floor), np.asarray(x).reshape(6, 4) @ read(weights.W1) @ read(weights.W2))


def read(array):
    return np.asarray(array)


def test_half_precision_is_measured_against_float32_with_its_casts():
    weights = init_weights(4, 8, dtype="float16")
    x = np.ones((2, 4), "float16")
    run = half_contenders(x, weights, "relu")
    assert run.hand is None
    assert run.floor().dtype == run.ours().dtype == "float16"
    np.testing.assert_array_equal(run.floor(), run.ours())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sizes", "4"], "lengths must be numbers with / between them, got '4'"),
        (["--tokens", "4xx"], "lengths must be numbers with x between them, got '4xx'"),
        (["--rounds", "0"], "--rounds must be 1 or more, got 0"),
        (["--sizes", "0/128"], "--sizes: lengths must be 1 or more, since nothing is measured on none, got '0/128'"),
        (["--tokens", "2x0"], "--tokens: lengths must be 1 or more"),
        (
            ["--sizes", "4/8", "9000000/9000000"],
            "9000000/9000000 with --tokens 4x512 in float32 needs 1.81e+06 GiB",
        ),
        (["--tokens", "9" * 30], "GiB of memory at least, and there are "),
        (["--libraries", "numpy", "--train"], "NumPy has nothing to train"),
        (["--train", "--dtypes", "float16"], "--train measures float32 and float64, got float16"),
    ],
)
def test_what_can_not_be_run(capsys, arguments, message):
    code, out, err = ask(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_a_dtype_that_is_not_measured(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "--dtypes", "int8"])
    assert stopped.value.code == 2
    assert "invalid choice: 'int8'" in capsys.readouterr().err


def test_without_scipy_the_hand_written_gelu_alone_is_left_out(capsys, monkeypatch):
    for name in ("scipy", "scipy.special"):
        monkeypatch.setitem(sys.modules, name, None)
    arguments = (*TINY, "--libraries", "numpy", "--activations", "gelu_tanh", "gelu")
    code, out, _ = ask(capsys, *arguments, "--json")
    rows = json.loads(out)["rows"]
    assert code == 0
    assert [set(row["ratios"]) for row in rows] == [{"floor", "ours", "hand"}, {"floor", "ours"}]
    assert ["note" in row for row in rows] == [False, True]
    code, out, _ = ask(capsys, *arguments)
    assert code == 0
    assert out.splitlines()[-2].split()[-2:] == ["-", "-"]
    assert out.splitlines()[-1] == "-: the hand-written gelu of NumPy needs SciPy's erf, and SciPy is not here"


def test_memory_that_runs_out_is_one_line(capsys, monkeypatch):
    def none_left(*arguments):
        raise MemoryError("Unable to allocate 9 GiB")

    monkeypatch.setattr("portable_ffn.command.bench._inputs", none_left)
    code, out, err = ask(capsys, *TINY, "--libraries", "numpy", "--activations", "relu")
    assert (code, out) == (2, "")
    assert err == (
        "portable-ffn bench: 4/8 in float32 doesn't fit into memory: Unable to allocate 9 GiB; ask for less\n"
    )


def test_help_says_that_silu_is_swiglu(capsys):
    with pytest.raises(SystemExit):
        main(["bench", "--help"])
    assert "silu is measured as SwiGLU" in capsys.readouterr().out


def test_memory(capsys):
    code, out, _ = ask(
        capsys,
        *("--tokens", "2000", "--sizes", "64/64", "--memory"),
        *("--libraries", "numpy", "--dtypes", "float64", "--json"),
    )
    rows = json.loads(out)["rows"]
    assert code == 0
    assert all(row["output_mib"] == pytest.approx(2000 * 64 * 8 / 2**20) for row in rows)
    assert all(row["peak_mib"] is None or row["peak_mib"] >= 0 for row in rows)


def test_peak_sees_what_a_call_takes_and_gives_back():
    grown = peak_mib(lambda: float(np.ones(40 * 2**20 // 8).sum()))
    if grown is None:
        pytest.skip("this system does not tell a process's highest memory")
    assert grown >= 39


def test_rounds_turn():
    order = []
    result = medians({name: lambda name=name: order.append(name) for name in "ab"}, rounds=1)
    assert result["ratios"].keys() == {"a", "b"}
    assert result["rounds"] == 100  # tiny calls get more
    assert order.count("a") == order.count("b")


def limits():
    path = Path(__file__).parents[2] / "ci" / "bench_limits.py"
    spec = importlib.util.spec_from_file_location("bench_limits", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_training_is_held_to_the_hand_written():
    row = {"library": "torch", "dtype": "float32", "activation": "relu", "d_model": 8, "d_ff": 16,
           "ratios": {"ours": {"floor": 3.0, "hand": 1.01}}}  # fmt: skip
    assert list(limits().asked_of("train", row)) == [("of the hand-written", 1.01, 1.0)]


def test_limits_cover_every_row_and_can_fail(monkeypatch, capsys):
    module = limits()
    slow = {"ours": {"floor": 99.0, "hand": 99.0}}

    def rows(part, rounds):
        for library in ("numpy", "torch", "jax"):
            for dtype in ("float32", "float64"):
                for size in module.SIZES:
                    for activation in ("relu", "silu", "gelu_tanh", "gelu"):
                        d_model, d_ff = map(int, size.split("/"))
                        yield {
                            "library": library, "dtype": dtype, "tokens": [1], "d_model": d_model, "d_ff": d_ff,
                            "activation": activation, "gated": activation == "silu", "ratios": slow,
                            "peak_mib": 999.0, "output_mib": 1.0,
                        }  # fmt: skip

    monkeypatch.setattr(module, "measured", lambda part, rounds: {"rows": list(rows(part, rounds))})
    monkeypatch.setattr("sys.argv", ["bench_limits.py"])
    assert module.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert all(line.endswith("OUT") for line in lines[:-1])
    assert {line.split()[0] for line in lines[:-1]} == set(module.PARTS)
    slow["ours"] = {"floor": 0.5, "hand": 0.1}
    monkeypatch.setattr(
        module,
        "measured",
        lambda part, rounds: {"rows": [{**row, "peak_mib": 2.0} for row in rows(part, rounds)]},
    )
    assert module.main() == 0
