"""The command `wholestep`: `train` trains, `bench` and `depth` measure, `audit` and `doctor` look for faults."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from wholestep.cli import audit, bench, depth, doctor, train
from wholestep.cli.options import Version
from wholestep.errors import WholestepError


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
    audit.add(commands)
    bench.add(commands)
    depth.add(commands)
    doctor.add(commands)
    return top
