"""Nothing out of a file reaches a terminal as it is: what can't be seen is an escape in every message."""

import copy
import json
import pickle

import numpy as np
import pytest

from portable_ffn import checkpoint
from portable_ffn.checkpoint import CheckpointError, Undecided
from portable_ffn.checkpoint._files.save import save_tensors
from portable_ffn.checkpoint._visible import visible

HOSTILE = "\x1b]0;owned\x07\x9b2J\r\u202e\u2066\u200f\u2028\x7f\0"


def test_what_can_be_seen_stays():
    for text in ("", "layers.0.mlp", "größe 幅 ширина ﷺ 😀", "a \\x1b b"):
        assert visible(text) == text


@pytest.mark.parametrize("char", [c for c in HOSTILE if not c.isprintable()], ids=ascii)
def test_what_cannot_be_seen_is_an_escape(char):
    shown = visible(f"a{char}b")
    assert shown.isprintable()
    assert shown.startswith("a\\")
    assert shown.encode("utf-8")
    assert visible(shown) == shown


def test_a_newline_stays_only_where_lines_are_meant():
    assert visible("a\nb") == "a\\nb"
    assert visible("a\nb\x1b", lines=True) == "a\nb\\x1b"


def test_half_a_surrogate_pair_can_be_written():
    assert visible("\ud800") == "\\ud800"


@pytest.mark.parametrize("error", [CheckpointError(f"a{HOSTILE}"), Undecided(f"a{HOSTILE}", "gate")], ids=repr)
def test_errors_are_built_with_escapes(error):
    for one in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert str(one).isprintable()
        assert str(one) == str(error)


def test_names_and_configs_out_of_files(tmp_path):
    name = f"layers.0.{HOSTILE}.mlp"
    save_tensors(
        tmp_path / "model.safetensors",
        {f"{name}.up_proj.weight": np.ones((8, 4)), f"{name}.down_proj.weight": np.ones((4, 8))},
    )
    (tmp_path / "config.json").write_text(json.dumps({"model_type": HOSTILE, "hidden_act": HOSTILE}))
    (entry,) = checkpoint.find(tmp_path)
    assert HOSTILE in entry.name
    assert str(entry.problem).isprintable()
    assert repr(entry).isprintable()
    with pytest.raises(CheckpointError) as caught:
        checkpoint.load(tmp_path)
    assert str(caught.value).isprintable()
