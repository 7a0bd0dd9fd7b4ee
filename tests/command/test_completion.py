"""The scripts of shells: what bash completes, and that zsh and fish can read theirs."""

import shutil
import subprocess

import pytest

from portable_ffn import ACTIVATIONS
from portable_ffn.__main__ import main
from portable_ffn.command import COMMANDS


def script(capsys, shell):
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def completed(text, folder, *words):
    """What bash offers for the last of these words."""
    program = f"{text}\nCOMP_WORDS=(portable-ffn {' '.join(repr(word) for word in words)})\nCOMP_CWORD={len(words)}\n"
    program += '_portable_ffn\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, cwd=folder, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")
def test_what_bash_offers(capsys, tmp_path):
    text = script(capsys, "bash")
    (tmp_path / "model.safetensors").touch()
    assert completed(text, tmp_path, "") == [*COMMANDS, "--help", "--version"]
    assert completed(text, tmp_path, "com") == ["compare", "completion"]
    assert completed(text, tmp_path, "check", "--activation", "gelu") == [n for n in ACTIVATIONS if n[:4] == "gelu"]
    assert completed(text, tmp_path, "apply", "--gate", "") == ["first", "second", "interleaved"]
    assert completed(text, tmp_path, "compare", "--gate-a", "f") == ["first"]
    assert completed(text, tmp_path, "bench", "--lay") == ["--layout"]
    assert completed(text, tmp_path, "inspect", "mod") == ["model.safetensors"]
    assert completed(text, tmp_path, "completion", "") == ["bash", "zsh", "fish"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_reads_its_script(capsys, tmp_path, shell):
    text = script(capsys, shell)
    for name in COMMANDS:
        assert name in text
    for word in ("activation", "interleaved", "verbose"):
        assert word in text
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here, so that its script was only written")
    (tmp_path / "script").write_text(text)
    done = subprocess.run([shell, "-n", str(tmp_path / "script")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
