"""The command `wholestep`: `train` trains, `doctor` looks for faults; other distributions add further commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any

from wholestep.cli import doctor, train
from wholestep.cli.options import Version
from wholestep.errors import CommandError, WholestepError

FURTHER = "wholestep.commands"
"""The group of entry points that further commands are found by: functions that add one to the command line."""
TOOLS = ("audit", "bench", "depth")
"""The commands of the distribution `wholestep-tools`, which lies in `tools/` of a checkout."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0 for success, 1 for a failure, 2 for a bad command line, 130 after Ctrl-C.

    >>> main(["train", "digits", "--epochs", "none"])
    2
    """
    try:
        options = parser().parse_args(argv)
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


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="wholestep", description="The whole training step, one program.")
    top.add_argument("--version", action=Version, help="show the version, and exit")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    train.add(commands)
    doctor.add(commands)
    further = {point.name: point for point in entry_points(group=FURTHER)}
    for _, point in sorted(further.items()):
        point.load()(commands)
    for name in TOOLS:
        if name not in further:
            add_missing(commands, name)
    return top


def add_missing(commands: Any, name: str) -> None:
    """Add a command that says how to install it, whatever its options; no help lists it."""

    def refuse(options: argparse.Namespace) -> int:
        raise CommandError(
            f"`wholestep {name}` is a tool of those who develop Wholestep, and not installed",
            hint="run `pip install -e tools` in a checkout of Wholestep's source",
        )

    absent = commands.add_parser(name, add_help=False, prefix_chars="\0")
    absent.add_argument("rest", nargs="*")
    absent.set_defaults(run=refuse)
