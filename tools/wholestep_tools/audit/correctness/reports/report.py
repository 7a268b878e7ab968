"""A public report of a wrong answer, as a program of its kind with the right answer beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Report(NamedTuple):
    """A public bug report: its reference, the error, a program of its kind, the arguments of the program, and the right
    answer.

    A program with `trains` compiles a step of its own, and is not traced again.
    """

    reference: str
    wrong: str
    program: Callable[..., Any]
    at: tuple[Any, ...]
    right: Any
    trains: bool = False
