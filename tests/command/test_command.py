"""The command: what it prints, where, and how it exits."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from portable_ffn import ACTIVATIONS, __version__
from portable_ffn.__main__ import COMMANDS, main
from portable_ffn.command.check import NETWORKS
from portable_ffn.testing import BACKENDS
from portable_ffn.testing._inputs.cases import CASES
from portable_ffn.testing._inputs.layers import file_inputs, random_inputs

THEIRS = """
    import numpy as np

    def right(x, W1, b1, W2, b2):
        return np.maximum(x @ W1 + b1, 0) @ W2 + b2

    def without_b2(x, W1, b1, W2, b2):
        return np.maximum(x @ W1 + b1, 0) @ W2

    def broken(x, W1, b1, W2, b2):
        raise RuntimeError("a mistake of mine")

    class Nested:
        right = staticmethod(right)

    number = 7
    """


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    """Somebody's module in the current directory."""
    (tmp_path / "their_networks.py").write_text(textwrap.dedent(THEIRS))
    (tmp_path / "their_mistake.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in ("their_networks", "their_mistake"):
        sys.modules.pop(name, None)


@pytest.fixture
def checkpoint(tmp_path):
    """Two layers in the BERT layout, d_model 6 and d_ff 10, as Linear stores them."""
    from safetensors.numpy import save_file

    random = np.random.default_rng(0)
    tensors = {}
    for layer in range(2):
        for part, shape in (("intermediate", (10, 6)), ("output", (6, 10))):
            name = f"encoder.layer.{layer}.{part}.dense"
            tensors[f"{name}.weight"] = random.standard_normal(shape).astype(np.float32)
            tensors[f"{name}.bias"] = random.standard_normal(shape[0]).astype(np.float32)
        for kind in ("weight", "bias"):
            tensors[f"encoder.layer.{layer}.output.LayerNorm.{kind}"] = np.ones(6, np.float32)
    folder = tmp_path / "bert"
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    config = {"model_type": "bert", "hidden_size": 6, "intermediate_size": 10, "hidden_act": "gelu"}
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 2}))
    return folder


def ran(capsys, *arguments):
    """The exit status, stdout and stderr of one command."""
    status = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return status, out, err


# The front doors


@pytest.mark.parametrize("door", [["-m", "portable_ffn"], ["-c", "from portable_ffn.__main__ import main; main()"]])
def test_the_module_is_the_command(door):
    command = subprocess.run([sys.executable, *door, "--version"], capture_output=True, text=True, check=True)
    assert command.stdout == f"portable-ffn {__version__}\n"


def test_the_script_is_installed():
    script = Path(sys.executable).with_name("portable-ffn")
    command = subprocess.run([script, "check", "--backend", "numpy", "--dtype", "float32", "--activation", "gelu"],
                             capture_output=True, text=True, check=False)  # fmt: skip
    assert command.returncode == 0, command.stderr
    assert command.stdout.splitlines()[0] == f"passed: {len(CASES)} pass"
    assert command.stderr == ""


def test_help_lists_every_command_and_imports_no_library():
    code = (
        "import sys; from portable_ffn.__main__ import main\n"
        "try: main(['--help'])\nfinally: assert 'numpy' not in sys.modules"
    )
    command = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in COMMANDS:
        assert f"\n    {name} " in command.stdout


@pytest.mark.parametrize("arguments", [[], ["chekc"], ["check", "--nothing"]])
def test_what_is_no_command(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_reader_that_leaves_early():
    head = f"{sys.executable} -m portable_ffn backends --json | head -c 1"
    command = subprocess.run(["bash", "-o", "pipefail", "-c", head], capture_output=True, text=True, check=False)
    assert (command.returncode, command.stdout, command.stderr) == (0, "{", "")


# backends


def test_backends_in_words(capsys):
    status, out, _ = ran(capsys, "backends")
    assert status == 0
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert list(lines) == list(BACKENDS)
    assert lines["numpy"].split()[:2] == [np.__version__, "cpu"]
    for name, row in BACKENDS.items():
        reason = row.missing()
        assert reason is None or lines[name] == f"not found: {reason}"


def test_backends_as_json(capsys):
    _, out, _ = ran(capsys, "backends", "--json")
    rows = {row["name"]: row for row in json.loads(out)["backends"]}
    assert list(rows) == list(BACKENDS)
    numpy = rows["numpy"]
    assert (numpy["found"], numpy["reason"], numpy["version"]) == (True, None, np.__version__)
    assert numpy["devices"] == ["cpu"]
    assert numpy["dtypes"] == ["float64", "float32", "float16", "bfloat16"]
    for name, row in BACKENDS.items():
        assert rows[name]["found"] is (row.missing() is None)


# check


def test_every_activation_is_in_the_default():
    assert {name for name, *_ in NETWORKS if isinstance(name, str)} == set(ACTIVATIONS)


def test_the_default_on_one_library(capsys):
    status, out, _ = ran(capsys, "check", "--backend", "numpy", "--dtype", "float64", "--json")
    document = json.loads(out)
    assert status == 0
    assert {row["activation"] for row in document["rows"]} >= set(ACTIVATIONS)
    assert {row["status"] for row in document["rows"]} == {"pass"}


def test_a_table_of_library_device_dtype_error_and_verdict(capsys):
    _, out, _ = ran(capsys, "check", "--backend", "numpy", "--backend", "array-api-strict", "--dtype", "float64",
                    "--activation", "silu", "--gated", "--no-bias")  # fmt: skip
    lines = [line.split() for line in out.splitlines()][1:]  # behind the verdict
    assert lines[0] == ["library", "device", "dtype", "error/bound", "verdict"]
    assert [line[:3] for line in lines[1:3]] == [
        ["numpy", "cpu", "float64"],
        ["array-api-strict", "CPU_DEVICE", "float64"],
    ]
    for line in lines[1:5]:
        assert 0 < float(line[3]) < 1
        assert line[4] == "pass"


def test_somebodys_function(capsys, theirs):
    status, out, _ = ran(capsys, "check", "--ffn", "their_networks:right", "--backend", "numpy", "--dtype", "float64")
    assert status == 0
    assert out.splitlines()[0] == f"passed: {len(CASES)} pass"
    status, _, _ = ran(
        capsys, "check", "--ffn", "their_networks:Nested.right", "--backend", "numpy", "--dtype", "float32"
    )
    assert status == 0


def test_a_function_of_a_file(capsys, tmp_path):
    """Wherever it lies, whatever lies beside it, and though a module of that name is there."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "beside_json.py").write_text("import numpy as np\n")
    text = "from beside_json import np\n\ndef f(x, W1, b1, W2, b2):\n    return np.maximum(x @ W1 + b1, 0) @ W2 + b2\n"
    (folder / "json.py").write_text(text)
    status, out, _ = ran(
        capsys, "check", "--ffn", f"{folder / 'json.py'}:f", "--backend", "numpy", "--dtype", "float64"
    )
    assert (status, out.splitlines()[0]) == (0, f"passed: {len(CASES)} pass")
    status, _, err = ran(capsys, "check", "--ffn", f"{folder / 'none.py'}:f")
    assert status == 2
    assert "can't be imported: FileNotFoundError" in err


@pytest.mark.parametrize(("said", "meant"), [("swish", "'silu'"), ("swiglu", "'silu', with V")])
def test_another_word_for_an_activation(capsys, said, meant):
    status, _, err = ran(capsys, "check", "--activation", said)
    assert status == 2
    assert f"did you mean {meant}" in err


def test_somebodys_function_that_differs(capsys, theirs):
    status, out, _ = ran(
        capsys, "check", "--ffn", "their_networks:without_b2", "--backend", "numpy", "--dtype", "float64"
    )
    assert status == 1
    assert "times the bound" in out
    assert out.splitlines()[0].startswith("not passed: ")


def test_somebodys_function_that_raises(capsys, theirs):
    status, out, err = ran(
        capsys, "check", "--ffn", "their_networks:broken", "--backend", "numpy", "--dtype", "float64"
    )
    assert status == 2
    assert "RuntimeError: a mistake of mine" in out
    assert "Traceback" not in out + err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ffn", "their_networks"], "must be spelled package.module:function, got 'their_networks'"),
        (["--ffn", "no_such_module:f"], "no_such_module can't be imported: ModuleNotFoundError: No module named"),
        (["--ffn", "their_mistake:f"], "their_mistake can't be imported: ZeroDivisionError: division by zero"),
        (["--ffn", "their_networks:wrong"], "their_networks has no wrong"),
        (["--ffn", "their_networks:number"], "must be a function, got int"),
        (["--ffn", "their_networks:right", "--gated"], "fn must take x, W1, b1, W2, b2, V, c"),
        (["--activation", "gleu"], "--activation must be one of relu, "),
        (["--backend", "nunpy"], "backend must be one of numpy, "),
        (["--dtype", "float8"], "dtypes must be of bfloat16, float16, float32, float64, got float8"),
        (["--device", "tpu"], "device tpu was asked for, but the devices found are cpu"),
        (["--backend", "array-api-strict", "--dtype", "float16"], "array-api-strict has float64, float32, got float16"),
        (["--model", "no_such_folder"], "--model no_such_folder: "),
        (["--inputs", "x.safetensors"], "--inputs are those of a model; give --model too"),
        (["--model", ".", "--gated"], "--gated and --no-bias are facts of a model's weights"),
        (["--backend", "numpy", "--activation", "relu", "--html", "no_such_folder/page.html"], "can't be written"),
    ],
    ids=" ".join,
)
def test_what_could_not_run_is_one_line(capsys, theirs, arguments, said):
    status, _, err = ran(capsys, "check", *arguments)
    assert status == 2
    assert err.startswith("portable-ffn check: ")
    assert said in err
    assert err.count("\n") == 1


def test_a_missing_backend_could_not_run(capsys):
    name = next(name for name, row in BACKENDS.items() if row.missing() is not None)
    status, out, err = ran(capsys, "check", "--backend", name)
    assert (status, out) == (2, "")
    assert err == f"portable-ffn check: {name} was asked for, but {BACKENDS[name].missing()}\n"


def test_a_page(capsys, tmp_path):
    status, _, _ = ran(capsys, "check", "--backend", "numpy", "--activation", "relu", "--html", tmp_path / "page.html")
    assert status == 0
    assert "numpy" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_progress_goes_to_stderr(capsys, monkeypatch):
    monkeypatch.setattr("portable_ffn.command._progress.SECONDS", 0.0)
    _, out, err = ran(capsys, "check", "--backend", "numpy", "--dtype", "float64", "--activation", "relu", "--json")
    assert json.loads(out)["passed"]
    assert err.splitlines()[0] == f"1 of {len(CASES)} rows: numpy cpu float64, relu, curve"
    assert len(err.splitlines()) == len(CASES)


# check --model


def test_the_layers_of_a_model(capsys, checkpoint):
    status, out, _ = ran(capsys, "check", "--model", checkpoint, "--json")
    document = json.loads(out)
    assert status == 0, out
    cases = [row["case"] for row in document["rows"] if row["backend"] == "numpy" and row["dtype"] == "float32"]
    assert cases == ["layer 0", "layer 0 hidden", "layer 1", "layer 1 hidden"]
    assert {row["activation"] for row in document["rows"]} == {"gelu"}
    found = {name for name in BACKENDS if ":" not in name and BACKENDS[name].missing() is None}
    assert {row["backend"] for row in document["rows"]} >= found


def test_a_nan_among_a_models_weights_is_no_change(capsys, checkpoint):
    """NaN is not equal to itself, but it arrived as it is in the file."""
    from safetensors.numpy import load_file, save_file

    tensors = load_file(checkpoint / "model.safetensors")
    tensors["encoder.layer.0.intermediate.dense.weight"][3, 2] = np.nan
    save_file(tensors, checkpoint / "model.safetensors")
    status, out, _ = ran(capsys, "check", "--model", checkpoint, "--json")
    assert status == 0, out
    assert "must arrive as they are" not in out


def test_layers_that_a_model_lacks_are_noted(capsys, checkpoint):
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 5}))
    _, out, _ = ran(capsys, "check", "--model", checkpoint, "--backend", "numpy", "--json")
    (note,) = json.loads(out)["notes"]
    assert "5" in note
    assert "2, 3, 4" in note


def test_a_model_with_another_activation_than_it_says(capsys, checkpoint):
    """What the checkpoint is told to mean is what is checked."""
    status, out, _ = ran(capsys, "check", "--model", checkpoint, "--activation", "relu", "--backend", "numpy", "--json")
    assert status == 0
    assert {row["activation"] for row in json.loads(out)["rows"]} == {"relu"}


def test_a_model_with_inputs_and_outputs(capsys, checkpoint, tmp_path):
    from safetensors.numpy import save_file

    from portable_ffn import checkpoint as room
    from portable_ffn import oracle

    given = {}
    for layer in range(2):
        x = random_inputs(6, layer).x.astype(np.float32)
        network = room.load(checkpoint, layer)
        y, _ = oracle.feed_forward(x, *network.weights, activation="gelu", dtype="float64")
        given |= {f"layers.{layer}.x": x, f"layers.{layer}.y64": y}
    save_file(given, tmp_path / "given.safetensors")
    arguments = [
        "check",
        "--model",
        checkpoint,
        "--inputs",
        tmp_path / "given.safetensors",
        "--backend",
        "numpy",
        "--json",
    ]
    status, out, _ = ran(capsys, *arguments)
    assert status == 0
    assert [row["case"] for row in json.loads(out)["rows"] if row["backend"] == "oracle"] == ["layer 0", "layer 1"]

    save_file({**given, "layers.1.y64": given["layers.1.y64"] + 1e-9}, tmp_path / "given.safetensors")
    status, out, _ = ran(capsys, *arguments)
    assert status == 1
    failed = [row for row in json.loads(out)["rows"] if row["status"] == "fail"]
    assert [(row["backend"], row["case"]) for row in failed] == [("oracle", "layer 1")]


def test_a_file_without_inputs(capsys, checkpoint):
    status, _, err = ran(capsys, "check", "--model", checkpoint, "--inputs", checkpoint / "model.safetensors")
    assert status == 2
    assert "must have tensors named layers.N.x" in err
    assert err.count("\n") == 1


@pytest.fixture
def minilm():
    """The real model's folder: PORTABLE_FFN_MODEL set and missing fails, unset skips."""
    given = os.environ.get("PORTABLE_FFN_MODEL")
    if given is None:
        pytest.skip("PORTABLE_FFN_MODEL is not set: no real model is here")
    if not Path(given, "model.safetensors").is_file():
        pytest.fail(f"PORTABLE_FFN_MODEL must name a folder with model.safetensors, got {given}", pytrace=False)
    return Path(given)


@pytest.mark.slow
def test_a_real_model_on_every_library(capsys, minilm):
    """all-MiniLM-L6-v2: six layers of 384/1536 with the exact GELU."""
    status, out, _ = ran(capsys, "check", "--model", minilm, "--json")
    document = json.loads(out)
    assert status == 0, [row for row in document["rows"] if row["status"] != "pass"]
    assert {row["case"] for row in document["rows"]} == {f"layer {n}{h}" for n in range(6) for h in ("", " hidden")}
    assert {row["activation"] for row in document["rows"]} == {"gelu"}


@pytest.mark.slow
def test_a_real_model_as_another_implementation_has_it(minilm, cases, capsys):
    """What entered the six layers for a real sentence and what came out, computed elsewhere in float64."""
    inputs = cases / "minilm" / "ffn.safetensors"
    assert sorted(file_inputs(inputs)) == list(range(6))
    libraries = "--backend", "numpy", "--backend", "torch", "--dtype", "float64", "--dtype", "float32"
    status, out, _ = ran(capsys, "check", "--model", minilm, "--inputs", inputs, *libraries, "--json")
    rows = json.loads(out)["rows"]
    assert status == 0, [row for row in rows if row["status"] != "pass"]
    oracle = [row for row in rows if row["backend"] == "oracle"]
    assert [row["case"] for row in oracle] == [f"layer {n}" for n in range(6)]
    assert all(row["worst"] < 1 for row in oracle)
