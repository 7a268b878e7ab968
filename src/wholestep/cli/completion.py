"""`wholestep --completion`: shell scripts that complete commands and options, generated from the argument parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

SHELLS = ("bash", "zsh", "fish")

BASH = """_wholestep() {{
  local at="" word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${{COMP_WORDS[i]}}"
    case "$at $word" in
{places}
    esac
  done
  case "$at" in
{words}
  esac
}}
complete -o default -F _wholestep wholestep
"""


class Completion(argparse.Action):
    """Print the completion for a shell: `eval "$(wholestep --completion bash)"` in the file that the shell reads."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, choices=SHELLS, **options)

    def __call__(self, parser: argparse.ArgumentParser, _: Any, shell: Any, __: Any = None) -> NoReturn:
        found = dict(completed_words(parser))
        print(fish_script(found) if shell == "fish" else bash_script(found, zsh=shell == "zsh"), end="")
        parser.exit()


def commands_of(parser: argparse.ArgumentParser, hidden: bool) -> dict[str, argparse.ArgumentParser]:
    """The commands below a parser, by their names, with or without the hidden ones."""
    found = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    shown = {choice.dest for action in found for choice in action._choices_actions}
    return {name: part for action in found for name, part in action.choices.items() if hidden or name in shown}


def completed_words(parser: argparse.ArgumentParser, at: str = "") -> Iterator[tuple[str, list[str]]]:
    """Each chain of commands, and the commands and options that may follow it."""
    inner = commands_of(parser, hidden=False)
    options = [name for action in parser._actions for name in action.option_strings]
    yield at, [*inner, *options]
    for name, part in inner.items():
        yield from completed_words(part, f"{at} {name}".strip())


def bash_script(found: dict[str, list[str]], *, zsh: bool) -> str:
    """A completion function for bash, which zsh runs too in its bash mode."""
    places = [f'      "{at.rpartition(" ")[0]} {at.rpartition(" ")[2]}") at="{at}" ;;' for at in found if at]
    words = [
        f'    "{at}") COMPREPLY=($(compgen -W "{" ".join(said)}" -- "${{COMP_WORDS[COMP_CWORD]}}")) ;;'
        for at, said in found.items()
    ]
    script = BASH.format(places="\n".join(places), words="\n".join(words))
    return (
        "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" + script
    ) * zsh or script


def fish_script(found: dict[str, list[str]]) -> str:
    """Completion commands for fish."""
    lines = list[str]()
    for at, said in found.items():
        parts = at.split()
        seen = [f"__fish_seen_subcommand_from {part}" for part in parts]
        inner = " ".join(word for word in said if not word.startswith("-"))
        condition = "; and ".join([*seen, *([f"not __fish_seen_subcommand_from {inner}"] if inner else [])])
        for word in said:
            what = f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}" if word[0] == "-" else f"-a {word}"
            lines.append(f"complete -c wholestep -n '{condition or 'true'}' {what}")
    return "\n".join(lines) + "\n"
