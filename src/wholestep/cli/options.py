"""Values of command-line options, checked where they are read."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from wholestep.train.checkpoint.steps import version

NO_DEFAULT = (None, argparse.SUPPRESS)


class Help(argparse.HelpFormatter):
    """Help with the default of every option that has one, which flags do not."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        shown = action.help is not None and action.option_strings and action.nargs != 0
        return f"{action.help} (default: %(default)s)" if shown and action.default not in NO_DEFAULT else action.help


class Version(argparse.Action):
    """Print the version of the library, which is looked up on use."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        print(f"wholestep {version()}")
        parser.exit()


def integer_at_least(least: int) -> Callable[[str], int]:
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


def positive_number(text: str) -> float:
    """An option's value as a number above 0.

    >>> positive_number("1.5")
    1.5
    """
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be above 0, not {text}")
    return value
