"""Names and words out of a file reach a terminal as escapes, from every command and every report."""

import json

import numpy as np
import pytest

from portable_ffn.__main__ import main
from portable_ffn.checkpoint._files.save import save_tensors
from portable_ffn.testing import check

HOSTILE = "\x1b]0;owned\x07\x9b2J\r\u202e\u2066\u2028"


def model(folder, name, config):
    """A small checkpoint under names of somebody's choice."""
    folder.mkdir()
    save_tensors(
        folder / "model.safetensors",
        {f"{name}.fc1.weight": np.ones((8, 4), np.float32), f"{name}.fc2.weight": np.ones((4, 8), np.float32)},
    )
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


@pytest.fixture
def hostile(tmp_path):
    """Checkpoints whose names, types and words hold what a terminal obeys."""
    known = {"model_type": "llama", "hidden_act": "gelu"}
    return [
        model(tmp_path / "names", f"layers.0.{HOSTILE}.mlp", known),
        model(tmp_path / "types", "layers.0.mlp", {"model_type": HOSTILE, "hidden_act": "gelu_new"}),
        model(tmp_path / "words", "layers.0.mlp", {"model_type": "llama", "hidden_act": HOSTILE}),
    ]


COMMANDS = [["inspect"], ["inspect", "--stats"], ["inspect", "--json"], ["compare"], ["apply"]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands(hostile, command, tmp_path, capfd):
    x, y = str(tmp_path / "x.npy"), str(tmp_path / "y.npy")
    np.save(x, np.ones((2, 4), np.float32))
    more = {"compare": [hostile[0]], "apply": ["--input", x, "--output", y]}.get(command[0], [])
    for path in hostile:
        main([*command, path, *more])
        for text in capfd.readouterr():
            assert all(char.isprintable() or char == "\n" for char in text), text


def test_a_report_of_an_error_with_such_a_message():
    def broken(x, W1, b1, W2, b2):
        raise ValueError(HOSTILE)

    report = check(broken, backends=("numpy",))
    assert not report.passed
    assert all(char.isprintable() or char == "\n" for char in str(report))
    with pytest.raises(AssertionError) as caught:
        report.raise_if_failed()
    assert all(char.isprintable() or char == "\n" for char in str(caught.value))
