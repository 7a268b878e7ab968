"""The command `wholestep`: `train` trains, `new` begins a project, `doctor` looks for faults, `audit mine` verifies the
steps of a script and `export` writes one of them for another system; other distributions add further commands."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any

from wholestep.cli import doctor, export, new, own_steps, train
from wholestep.cli.completion import Completion, commands_of
from wholestep.cli.options import Version
from wholestep.errors import CommandError, WholestepError

FURTHER = "wholestep.commands"
"""The group of entry points for further commands: functions that add a command to the command line, or subcommands to
an existing command."""
TOOLS = ("audit", "bench", "depth")
"""The commands of the distribution `wholestep-tools`, which lies in `tools/` of a checkout."""


NOBODY_READS = 141
"""The exit code of a command whose output nobody reads any more, as that of a program which a broken pipe ends."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0 for success, 1 for a failure, 2 for a bad command line, 130 after Ctrl-C, 141
    where nobody reads the output any more. Characters that the terminal does not have are printed as escapes.

    >>> main(["train", "digits", "--epochs", "none"])
    2
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = run_command(sys.argv[1:] if argv is None else list(argv))
        print(end="", flush=True)
        return code
    except BrokenPipeError:
        drop_output()
        return NOBODY_READS
    except OSError as error:
        if error.filename is not None:
            raise
        drop_output()
        print(f"wholestep: the output cannot be written: {error.strerror or error}", file=sys.stderr)
        return 1


def drop_output() -> None:
    """Send the rest of the output, which Python writes when it ends, to nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_command(words: Sequence[str]) -> int:
    """Run the command of a command line; its errors are said."""
    top = parser(words)
    try:
        options, unknown = top.parse_known_args(words)
        if unknown:
            asked_parser(top, words).error(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        code: int = options.run(options)
        return code
    except WholestepError as error:
        lines = [line for line in str(error).splitlines() if not line.startswith("  at ")]
        print(f"wholestep: {'; '.join(line.strip() for line in lines)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("wholestep: stopped", file=sys.stderr)
        return 130


def asked_parser(top: argparse.ArgumentParser, words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of the command that a command line names, whose usage lists the options that it has."""
    for word in words:
        top = commands_of(top, hidden=True).get(word, top)
    return top


def parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The command line; `words` may name a subcommand of a distribution that is not installed, which gets an error."""
    top = argparse.ArgumentParser(prog="wholestep", description="The whole training step, one program.")
    top.add_argument("--version", action=Version, help="show the version, and exit")
    top.add_argument("--completion", action=Completion, help="show the completion for a shell, and exit")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    train.add(commands)
    new.add(commands)
    doctor.add(commands)
    export.add(commands)
    within: dict[str, Any] = {"audit": own_steps.add(commands)}
    further = {point.name: point for point in entry_points(group=FURTHER)}
    for _, point in sorted(further.items()):
        point.load()(within.get(point.name, commands))
    for name in TOOLS:
        if name not in further:
            known = within[name].choices if name in within else {}
            asked = [word for word in words[1:2] if words[0] == name and word[0] != "-" and word not in known]
            for word in asked if name in within else [name]:
                add_missing(within.get(name, commands), word, name)
    return top


def add_missing(commands: Any, word: str, name: str) -> None:
    """Add a command or subcommand that takes any arguments and says how to install it; help does not list it."""
    said = name if word == name else f"{name} {word}"

    def refuse(options: argparse.Namespace) -> int:
        raise CommandError(
            f"`wholestep {said}` is a tool of those who develop Wholestep, and not installed",
            hint="run `pip install -e tools` in a checkout of Wholestep's source",
        )

    absent = commands.add_parser(word, add_help=False, prefix_chars="\0")
    absent.add_argument("rest", nargs="*")
    absent.set_defaults(run=refuse)
