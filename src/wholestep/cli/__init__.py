"""The command `wholestep`: `wholestep train digits` trains a network and says how it went."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from wholestep.cli.train import train_digits
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
        return train_digits(options.epochs, options.seed, options.batch_size, options.out, sys.stdout)
    except WholestepError as error:
        lines = [line for line in str(error).splitlines() if not line.startswith("  at ")]
        print(f"wholestep: {'; '.join(line.strip() for line in lines)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("wholestep: stopped before anything was saved", file=sys.stderr)
        return 130


def at_least(least: int) -> Callable[[str], int]:
    """An option's value as an integer that is not too small."""

    def integer(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"must be {least} or more, not {value}")
        return value

    return integer


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="wholestep", description="The whole training step, one program.")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    train = commands.add_parser("train", help="train a network", description="Train a network on real data.")
    jobs = train.add_subparsers(title="jobs", required=True, metavar="JOB")
    about = "Train a small network on the scanned digits of scikit-learn, and report how well it reads others."
    job = jobs.add_parser("digits", help="read handwritten digits", description=about)
    default = argparse.ArgumentDefaultsHelpFormatter
    job.formatter_class = default
    job.add_argument("--epochs", type=at_least(1), default=40, metavar="N", help="how often each image is seen")
    job.add_argument("--batch-size", type=at_least(1), default=64, metavar="N", help="images in each step")
    job.add_argument("--seed", type=at_least(0), default=0, metavar="N", help="where all random numbers come from")
    job.add_argument("--out", type=Path, default=Path("wholestep-digits"), metavar="DIR", help="where to save")
    return top
