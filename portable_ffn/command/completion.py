"""`portable-ffn completion`: the script with which a shell completes commands, options and their words."""

import argparse
import importlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from portable_ffn import ACTIVATIONS
from portable_ffn._arrays.dtype import REAL_FLOATING
from portable_ffn.command import COMMANDS
from portable_ffn.testing import BACKENDS

_WHERE = """put it where the shell looks:

  bash:  portable-ffn completion bash > ~/.local/share/bash-completion/completions/portable-ffn
  zsh:   portable-ffn completion zsh > "${fpath[1]}/_portable-ffn"
  fish:  portable-ffn completion fish > ~/.config/fish/completions/portable-ffn.fish
"""


class Option(NamedTuple):
    """An option of a command: its spellings, what it is for, the words that it takes (a file's name where none)."""

    names: tuple[str, ...]
    help: str
    takes: bool
    words: tuple[str, ...]
    again: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = f"Print the script with which a shell completes portable-ffn; {_WHERE}"
    parser.add_argument("shell", choices=list(SHELLS), metavar="SHELL", help=f"one of {', '.join(SHELLS)}")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    print(SHELLS[args.shell]({name: _options(name) for name in COMMANDS}), end="")
    return 0


def _options(command: str) -> list[Option]:
    """What a command takes, as its parser has it; the arguments without a name as an option of no spelling."""
    parser = argparse.ArgumentParser()
    importlib.import_module(f"portable_ffn.command.{command}").add_arguments(parser)
    parser.add_argument("-v", "--verbose", action="count", help="log what is read and decided, and why")
    known: Mapping[str, Iterable[str]] = {"activation": ACTIVATIONS, "backend": BACKENDS, "dtype": REAL_FLOATING}
    return [
        Option(
            tuple(action.option_strings),
            (action.help or "").replace("%%", "%"),
            action.nargs != 0,
            tuple(map(str, action.choices or known.get(action.dest.removesuffix("_a").removesuffix("_b"), ()))),
            isinstance(action, argparse._AppendAction) or action.nargs == "+",
        )
        for action in parser._actions
    ]


def _bash(commands: Mapping[str, list[Option]]) -> str:
    """The script for bash."""
    after = [
        f'        "{command} {name}") words="{" ".join(option.words)}" ;;\n'
        for command, options in commands.items()
        for option in options
        if option.words
        for name in option.names or [command]
    ]
    named = [
        f'            {command}) words="{" ".join(name for option in options for name in option.names)}" ;;\n'
        for command, options in commands.items()
    ]
    return f"""# bash completion of portable-ffn
_portable_ffn() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{" ".join(commands)} --help --version" -- "$current"))
        return
    fi
    # An argument without a name stands behind the command itself.
    [ "$COMP_CWORD" -eq 2 ] && before="${{COMP_WORDS[1]}}"
    case "${{COMP_WORDS[1]}} $before" in
{"".join(after)}    esac
    if [ -z "$words" ] && [ "${{current:0:1}}" = - ]; then
        case "${{COMP_WORDS[1]}}" in
{"".join(named)}        esac
    fi
    if [ -n "$words" ]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
    else
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}}
complete -o filenames -F _portable_ffn portable-ffn
"""


def _zsh(commands: Mapping[str, list[Option]]) -> str:
    """The script for zsh."""
    cases = []
    for command, options in commands.items():
        specs = []
        for option in options:
            takes = f":word:({' '.join(word.replace(':', chr(92) + ':') for word in option.words)})"
            takes = (takes if option.words else ":file:_files") if option.takes else ""
            told = _quoted(option.help, "[]:'")
            specs += [f"'{'*' * option.again}{name}[{told}]{takes}'" for name in option.names]
            specs += [f"'{takes}'"] if not option.names and option.words else []
        cases.append(f"        {command}) _arguments {' '.join(specs)} '*:file:_files' ;;\n")
    listed = " ".join(f"'{name}:{_quoted(told, chr(39))}'" for name, told in COMMANDS.items())
    return f"""#compdef portable-ffn
_portable_ffn() {{
    local -a commands=({listed})
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    shift words
    (( CURRENT-- ))
    case $words[1] in
{"".join(cases)}    esac
}}
if [ "$funcstack[1]" = "_portable-ffn" ]; then
    _portable_ffn "$@"
else
    compdef _portable_ffn portable-ffn
fi
"""


def _fish(commands: Mapping[str, list[Option]]) -> str:
    """The script for fish."""
    lines = ["# fish completion of portable-ffn"]
    for command, options in commands.items():
        told = _quoted(COMMANDS[command], "'")
        lines.append(f"complete -c portable-ffn -f -n __fish_use_subcommand -a {command} -d '{told}'")
        seen = f"complete -c portable-ffn -n '__fish_seen_subcommand_from {command}'"
        for option in options:
            spelled = "".join(f" -{'l' if name[:2] == '--' else 's'} {name.lstrip('-')}" for name in option.names)
            words = f" -x -a '{' '.join(option.words)}'" if option.words else " -r" * (option.takes and bool(spelled))
            if spelled or option.words:
                lines.append(f"{seen}{spelled}{words} -d '{_quoted(option.help, chr(39))}'")
    return "\n".join(lines) + "\n"


def _quoted(text: str, taken: str) -> str:
    """A text that stands in single quotes, in one line; a quote of its own becomes a typographic one."""
    text = " ".join(text.split()).replace("'", "\u2019")
    return "".join(f"\\{letter}" if letter in taken else letter for letter in text)


SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
