"""What a terminal gets: tables that fold and cut no word, verdicts in colour; pipes and NO_COLOR get them plain."""

import io
import logging
import sys

import pytest

from portable_ffn import ACTIVATIONS
from portable_ffn.__main__ import COMMANDS, main
from portable_ffn.command._terminal import folded, say_table, say_text

pytest.importorskip("rich", reason="tables on a terminal are rich's")

HEADINGS = ["stack", "layers", "form", "activation", "d_model", "d_ff", "bias", "dtype", "parameters", "share", "FLOPs"]


class Terminal(io.StringIO):
    """A terminal, as far as it is asked."""

    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """What is drawn on a terminal of so many columns."""

    def begin(columns, **environment):
        for name, value in {"COLUMNS": str(columns), "TERM": "xterm-256color", **environment}.items():
            monkeypatch.setenv(name, value)
        out = Terminal()
        monkeypatch.setattr(sys, "stdout", out)
        return out

    monkeypatch.delenv("NO_COLOR", raising=False)
    return begin


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 140])
def test_every_activation_and_form_is_whole(terminal, columns):
    out = terminal(columns, NO_COLOR="1")
    rows = [
        ["main", "0-31", form, name, "16384", "53248", "yes", "bfloat16", "124 M", "99.9%", "5.64 G"]
        for name in ACTIVATIONS
        for form in ("128 x expert", "fused-gated")
    ]
    assert say_table(HEADINGS, rows)
    drawn = out.getvalue()
    assert max(map(len, drawn.splitlines())) <= columns
    for word in (*ACTIVATIONS, "fused-gated", "bfloat16", "activation", "parameters"):
        assert word in drawn
    assert "…" not in drawn


def test_a_narrow_terminal_breaks_words_and_loses_none():
    assert folded(["heading", "other"], [["a" * 30, "b"]], 12) == (2, [8])


def test_pipes_get_plain_lines(capsys):
    assert not say_table(["a", "b"], [["1", "2"]])
    say_text("passed: 3 pass")
    assert capsys.readouterr().out == "passed: 3 pass\n"


@pytest.mark.parametrize("plain", [{}, {"NO_COLOR": "1"}])
def test_verdicts_have_a_colour(terminal, plain):
    out = terminal(80, **plain)
    say_text(
        "library  device  dtype    error/bound  verdict\nnumpy    cpu     float64  0.1          pass\n"
        "torch    cpu     float64  9            fail (3 of 4)\nnot passed: 3 fail"
    )
    drawn = out.getvalue()
    assert "library" in drawn
    assert "fail (3 of 4)" in drawn
    if plain:
        assert "\x1b" not in drawn
        assert "not passed: 3 fail\n" in drawn
    else:
        assert "\x1b[32mpass" in drawn
        assert "\x1b[1;31mnot passed" in drawn


def test_long_lines_are_indented_and_paths_stay_whole(terminal):
    out = terminal(40, NO_COLOR="1")
    path = "a/very/long/path/" * 4
    say_text(f"  because: {'words of a cause ' * 5}\n{path}")
    lines = out.getvalue().splitlines()
    assert lines[1].startswith("    ")
    assert lines[-1] == path


def test_nothing_of_a_file_works_on_a_terminal(terminal):
    out = terminal(80, NO_COLOR="1")
    say_table(["a", "b"], [["\x1b[2J", "\u202eb"]])
    say_text("note: \x07 \x1b]0;title\x07")
    assert not {"\x1b", "\x07", "\u202e"} & set(out.getvalue())
    assert "\\x1b[2J" in out.getvalue()


@pytest.mark.parametrize("arguments", [["backends"], ["check", "--backend", "numpy", "--activation", "relu"]])
def test_commands_draw_on_a_terminal(terminal, arguments):
    out = terminal(80)
    assert main(arguments) == 0
    assert "┏━" in out.getvalue()


def test_the_command_alone_lists_what_there_is(capsys):
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert all(f"    {name} " in told for name in COMMANDS)


def test_verbose_logs_what_is_read_and_decided(cases, capsys):
    logger = logging.getLogger("portable_ffn")
    handlers, level = list(logger.handlers), logger.level
    try:
        main(["inspect", str(cases / "golden" / "bert"), "-v", "--json"])
    finally:
        logger.handlers[:] = handlers
        logger.setLevel(level)
    err = capsys.readouterr().err
    assert "encoder.layer.0: dense; names: " in err
    assert " tensors\n" in err
